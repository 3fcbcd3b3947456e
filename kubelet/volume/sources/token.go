package sources

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/volume/files"
)

// tokenSource is a service account token as a file. It is only a source of projected volumes.
type tokenSource struct {
	projection *v1.ServiceAccountTokenProjection
	mode       *int32 // of the file; nil is 0644
}

func (tokenSource) Need() Need { return Need{Token: true} }

func (s tokenSource) Files(ctx context.Context, j Job) (files.Content, error) {
	value, err := j.Token(ctx, s.projection)
	if err != nil {
		return nil, err
	}
	f := files.File{Data: []byte(value), Mode: v1.ProjectedVolumeSourceDefaultMode}
	if s.mode != nil {
		f.Mode = *s.mode
	}
	restrictToken(&f, j.Pod)
	return files.Content{s.projection.Path: f}, nil
}

// restrictToken lets only the one user of the pod read a token file, and the pod's group (which writing adds).
// Without either the mode stays.
func restrictToken(f *files.File, pod *v1.Pod) {
	f.UID = commonUser(pod)
	if sc := pod.Spec.SecurityContext; f.UID != nil || sc != nil && sc.FSGroup != nil {
		f.Mode = 0o600
	}
}

// commonUser returns the user that every container of the pod is told to run as. It returns nil if they differ, or if
// one is not told. Ephemeral containers do not count: they come later, and a file must not change its owner then.
func commonUser(pod *v1.Pod) *int64 {
	var base, common *int64
	if sc := pod.Spec.SecurityContext; sc != nil {
		base = sc.RunAsUser
	}

	same := true
	// common follows the containers; once two differ, same stays false.
	visit := func(sc *v1.SecurityContext) {
		uid := base
		if sc != nil && sc.RunAsUser != nil {
			uid = sc.RunAsUser
		}
		if uid == nil || common != nil && *common != *uid {
			same = false
		}
		common = uid
	}
	for _, c := range pod.Spec.InitContainers {
		visit(c.SecurityContext)
	}
	for _, c := range pod.Spec.Containers {
		visit(c.SecurityContext)
	}

	if !same {
		return nil
	}
	return common
}

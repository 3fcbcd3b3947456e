package volume

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refsOf lists the objects that the volumes of a pod are made of.
func refsOf(pod *v1.Pod) []objectRef {
	var refs []objectRef
	add := func(kind, name string) {
		refs = append(refs, objectRef{kind: kind, namespace: pod.Namespace, name: name})
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.ConfigMap != nil:
			add(ConfigMap, v.ConfigMap.Name)
		case v.Secret != nil:
			add(Secret, v.Secret.SecretName)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil {
					add(ConfigMap, s.ConfigMap.Name)
				}
				if s.Secret != nil {
					add(Secret, s.Secret.Name)
				}
			}
		}
	}
	return refs
}

func hasToken(pod *v1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				return true
			}
		}
	}
	return false
}

// hasDownward tells whether a volume shows something of the pod itself.
func hasDownward(pod *v1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.DownwardAPI != nil {
			return true
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.DownwardAPI != nil {
				return true
			}
		}
	}
	return false
}

// collect gathers the files of a volume from the API.
func (m *Manager) collect(ctx context.Context, p *podVolumes, j job) (content, error) {
	ns := j.pod.Namespace
	switch v := j.volume; {
	case v.ConfigMap != nil:
		return m.fromConfigMap(ctx, ns, v.ConfigMap.Name, newSelection(v.ConfigMap.Items, v.ConfigMap.DefaultMode, v.ConfigMap.Optional))
	case v.Secret != nil:
		return m.fromSecret(ctx, ns, v.Secret.SecretName, newSelection(v.Secret.Items, v.Secret.DefaultMode, v.Secret.Optional))
	case v.DownwardAPI != nil:
		return downwardContent(j.pod, j.facts, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	}
	all := content{}
	for i := range j.volume.Projected.Sources {
		part, err := m.projected(ctx, p, j, &j.volume.Projected.Sources[i])
		if err != nil {
			return nil, err
		}
		if err := all.merge(part); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (m *Manager) projected(ctx context.Context, p *podVolumes, j job, s *v1.VolumeProjection) (content, error) {
	mode := j.volume.Projected.DefaultMode
	switch {
	case s.ConfigMap != nil:
		return m.fromConfigMap(ctx, j.pod.Namespace, s.ConfigMap.Name, newSelection(s.ConfigMap.Items, mode, s.ConfigMap.Optional))
	case s.Secret != nil:
		return m.fromSecret(ctx, j.pod.Namespace, s.Secret.Name, newSelection(s.Secret.Items, mode, s.Secret.Optional))
	case s.DownwardAPI != nil:
		return downwardContent(j.pod, j.facts, s.DownwardAPI.Items, mode)
	case s.ServiceAccountToken != nil:
		value, err := m.token(ctx, p, j.pod, s.ServiceAccountToken)
		if err != nil {
			return nil, err
		}
		f := file{data: []byte(value), mode: v1.ProjectedVolumeSourceDefaultMode}
		if mode != nil {
			f.mode = *mode
		}
		restrictToken(&f, j.pod)
		return content{s.ServiceAccountToken.Path: f}, nil
	}
	return nil, fmt.Errorf("this type of projected source is not supported")
}

// restrictToken narrows a token file to the one user of the pod and to its group (which setAccess adds).
func restrictToken(f *file, pod *v1.Pod) {
	f.uid = commonUser(pod)
	if sc := pod.Spec.SecurityContext; f.uid != nil || sc != nil && sc.FSGroup != nil {
		f.mode = 0o600
	}
}

// commonUser is the user that every container of the pod is told to run as; nil if they differ or one is not told.
// Ephemeral containers do not count: they come later, and a file must not change its owner then.
func commonUser(pod *v1.Pod) *int64 {
	var base, common *int64
	if sc := pod.Spec.SecurityContext; sc != nil {
		base = sc.RunAsUser
	}
	same := true
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

func (m *Manager) fromConfigMap(ctx context.Context, namespace, name string, s selection) (content, error) {
	if m.opts.Objects == nil {
		return nil, fmt.Errorf("no API server to read configmap %q from", name)
	}
	cm, err := m.opts.Objects.ConfigMap(ctx, namespace, name)
	if apierrors.IsNotFound(err) && s.optional {
		return content{}, nil
	}
	if err != nil {
		return nil, err
	}
	return s.pick("config", configMapKeys(cm))
}

func (m *Manager) fromSecret(ctx context.Context, namespace, name string, s selection) (content, error) {
	if m.opts.Objects == nil {
		return nil, fmt.Errorf("no API server to read secret %q from", name)
	}
	secret, err := m.opts.Objects.Secret(ctx, namespace, name)
	if apierrors.IsNotFound(err) && s.optional {
		return content{}, nil
	}
	if err != nil {
		return nil, err
	}
	return s.pick("secret", secret.Data)
}

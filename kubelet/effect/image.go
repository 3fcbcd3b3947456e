package effect

import (
	"context"
	"errors"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/credential"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/runtime"
)

// credentialPod is a pod as programs that know logins are told.
func credentialPod(p *v1.Pod) credential.Pod {
	return credential.Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Account: p.Spec.ServiceAccountName}
}

// ensureImage makes the image of a container, or of a volume, present.
func (e *Pod) ensureImage(ctx context.Context, j Job) []pod.Fact {
	name, policy, ok := pod.WantedImage(j.Pod, j.Action)
	if !ok {
		return dropped(j)
	}

	r := image.Request{Name: name, Policy: policy, Secrets: e.pullSecrets(ctx, j.Pod), PodUID: string(j.Pod.UID),
		For: credentialPod(j.Pod),
		Event: func(kind, reason, message string) {
			if reason == "Pulling" {
				e.pulled.Store(true)
			}
			if reason != "BackOff" || e.First("backoff/"+name) {
				e.Event(j.Pod, j.Name, kind, reason, message)
			}
		}}
	e.addHandler(ctx, j, &r)

	img, err := e.o.Images.Ensure(ctx, r)

	asked := pod.ImageAsked{Container: j.Name, Volume: j.Volume, Image: name}
	if err == nil {
		return []pod.Fact{pod.ImagePresent{ImageAsked: asked, Ref: img.Ref,
			User: pod.ImageUser{UID: img.UID, Name: img.Username}}}
	}

	f := pod.ImageFailed{ImageAsked: asked, Reason: image.ErrImagePull, Message: err.Error(),
		RetryAt: time.Now().Add(time.Second)}
	var known *image.Error
	if errors.As(err, &known) {
		f.Reason, f.RetryAt = known.Reason, known.RetryAt
	}
	return []pod.Fact{f}
}

// addHandler says by which handler of the runtime the container will run. The runtime may pull the image for it, and
// on Windows it depends on that which images fit.
func (e *Pod) addHandler(ctx context.Context, j Job, r *image.Request) {
	var spec runtime.SandboxSpec
	if err := e.specs.handler(ctx, j.Pod, &spec); err != nil {
		r.HandlerUnknown = true // making the sandbox fails with the same error and reports it
	}
	r.Handler = spec.Handler
	if j.Volume != "" {
		r.HandlerUnknown = true // the image of a volume is not run
		return
	}
	if c := desired.Find(j.Pod, j.Name); c != nil {
		r.HostProcess = desired.HostProcess(j.Pod, c)
	}
}

// pullSecrets reads the secrets by which the pod's images may be pulled. One that cannot be read is left out.
func (e *Pod) pullSecrets(ctx context.Context, p *v1.Pod) (secrets []v1.Secret) {
	for _, ref := range p.Spec.ImagePullSecrets {
		s, err := e.o.Objects.Secret(ctx, p.Namespace, ref.Name)
		if err != nil {
			e.Event(p, "", v1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
				"Unable to retrieve some image pull secrets ("+ref.Name+
					"); attempting to pull the image may not succeed.")
			continue
		}
		secrets = append(secrets, *s)
	}
	return secrets
}

// ImageVolumes returns the references of the pod's volumes that are images, by the volume's name.
func ImageVolumes(s *pod.State) map[string]string {
	refs := map[string]string{}
	volumes := s.Pod().Spec.Volumes
	for i := range volumes {
		v := &volumes[i]
		if img := s.Image(pod.VolumeImage(v.Name)); v.Image != nil && img.Ref != "" {
			refs[v.Name] = img.Ref
		}
	}
	return refs
}

// imageMounts returns the mounts of a container that the runtime makes from images.
func imageMounts(p *v1.Pod, c *v1.Container, refs map[string]string) (mounts []runtime.Mount) {
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		if ref := refs[m.Name]; ref != "" {
			name, _, _ := pod.WantedImage(p, pod.Action{Volume: m.Name})
			mounts = append(mounts, runtime.Mount{Image: ref, ImageName: name, ImageSubPath: m.SubPath,
				ContainerPath: m.MountPath, ReadOnly: true})
		}
	}
	return mounts
}

// imageMountFailed reports whether a container was not made because an image that it has as a volume could not be
// mounted: then the runtime says so in CRI's word.
func imageMountFailed(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ImageVolumeMountFailed")
}

package kubelet

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
)

// wantedImage is the image that an EnsureImage action asks for, as the pod names it. ok is false when it names none.
func wantedImage(p *v1.Pod, x pod.Action) (name string, policy v1.PullPolicy, ok bool) {
	if p == nil {
		return "", "", false
	}
	if x.Volume == "" {
		c := findContainer(p, x.Name)
		if c == nil {
			return "", "", false
		}
		return c.Image, c.ImagePullPolicy, true
	}
	i := slices.IndexFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Name == x.Volume && v.Image != nil })
	if i < 0 {
		return "", "", false
	}
	return p.Spec.Volumes[i].Image.Reference, p.Spec.Volumes[i].Image.PullPolicy, true
}

// ensureImage makes the image of a container, or of a volume, present.
func (a *actor) ensureImage(ctx context.Context, p *v1.Pod, x pod.Action) fact {
	name, policy, ok := wantedImage(p, x)
	if !ok {
		return nil
	}
	key := x.Name
	if x.Volume != "" {
		key = pod.VolumeImage(x.Volume)
	}
	img, err := a.k.o.Images.Ensure(ctx, image.Request{Name: name, Policy: policy, Secrets: a.pullSecrets(ctx, p), PodUID: string(p.UID),
		Event: func(kind, reason, message string) {
			if reason == "Pulling" {
				a.pulled.Store(true)
			}
			if reason != "BackOff" || a.first("backoff/"+name) {
				a.event(p, x.Name, kind, reason, message)
			}
		}})
	return func(s *pod.State) {
		if now, _, ok := wantedImage(s.Pod, x); !ok || now != name {
			return // another image is wanted by now
		}
		if err == nil {
			s.Images[key] = pod.Image{Ref: img.Ref}
			if x.Volume == "" {
				a.imageUser(x.Name, runtime.ImageUser{UID: img.UID, Name: img.Username})
			}
			return
		}
		f := &pod.Failure{Reason: image.ErrImagePull, Message: err.Error(), RetryAt: time.Now().Add(time.Second)}
		var known *image.Error
		if errors.As(err, &known) {
			f.Reason, f.RetryAt = known.Reason, known.RetryAt
		}
		s.Images[key] = pod.Image{Failure: f}
	}
}

func (a *actor) pullSecrets(ctx context.Context, p *v1.Pod) (secrets []v1.Secret) {
	for _, ref := range p.Spec.ImagePullSecrets {
		s, err := a.k.o.API.Secret(ctx, p.Namespace, ref.Name)
		if err != nil {
			a.event(p, "", v1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
				"Unable to retrieve some image pull secrets ("+ref.Name+"); attempting to pull the image may not succeed.")
			continue
		}
		secrets = append(secrets, *s)
	}
	return secrets
}

// imagePeriod is how often unused images are looked for.
const imagePeriod = 5 * time.Minute

// collectImages removes unused images when their disk is full or they are old. The first round only sees what there is;
// the second comes as soon as that is old enough to go, for a disk may be full when a kubelet starts.
func (k *Kubelet) collectImages(ctx context.Context) {
	g := k.o.ImageGC
	if g == nil {
		return
	}
	g.Event = k.o.API.NodeEvent
	for wait := min(g.Policy.MinAge+time.Second, imagePeriod); ; wait = imagePeriod {
		if err := g.Collect(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Collecting unused images failed")
		}
		k.node.SetImages(g.Largest(k.o.MaxImages))
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// imageVolumes are the references of the pod's volumes that are images, by name. Only the actor's goroutine calls it.
func (a *actor) imageVolumes(p *v1.Pod) map[string]string {
	refs := map[string]string{}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if img := a.state.Images[pod.VolumeImage(v.Name)]; v.Image != nil && img.Ref != "" {
			refs[v.Name] = img.Ref
		}
	}
	return refs
}

// imageMounts are the mounts of a container that the runtime makes from images.
func imageMounts(p *v1.Pod, c *v1.Container, refs map[string]string) (mounts []runtime.Mount) {
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		if ref := refs[m.Name]; ref != "" {
			name, _, _ := wantedImage(p, pod.Action{Volume: m.Name})
			mounts = append(mounts, runtime.Mount{Image: ref, ImageName: name, ImageSubPath: m.SubPath, ContainerPath: m.MountPath, ReadOnly: true})
		}
	}
	return mounts
}

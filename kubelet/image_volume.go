package kubelet

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/volume"
)

// imageMounts makes sure that the images which a container mounts are present, and says where the runtime is to mount
// them.
func (a *actor) imageMounts(ctx context.Context, p *v1.Pod, c *v1.Container) ([]runtime.Mount, error) {
	var out []runtime.Mount
	for _, vm := range c.VolumeMounts {
		i := slices.IndexFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Name == vm.Name && v.Image != nil })
		if i < 0 {
			continue
		}
		source := p.Spec.Volumes[i].Image
		at, err := volume.CleanContainerPath(vm.MountPath, a.k.o.Windows)
		if err != nil {
			return nil, fmt.Errorf("mounting volume %q: %w", vm.Name, err)
		}
		img, err := a.k.o.Images.Ensure(ctx, image.Request{Name: source.Reference, Policy: source.PullPolicy, Secrets: a.pullSecrets(ctx, p),
			PodUID: string(p.UID), Event: func(kind, reason, message string) {
				if reason != "BackOff" || a.first("backoff/"+source.Reference) {
					a.event(p, c.Name, kind, reason, message)
				}
			}})
		if err != nil {
			return nil, fmt.Errorf("image of volume %q: %w", vm.Name, err)
		}
		out = append(out, runtime.Mount{Image: img.Ref, ImageName: source.Reference, ImageSubPath: vm.SubPath, ContainerPath: at, ReadOnly: true})
	}
	return out, nil
}

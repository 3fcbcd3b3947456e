package desired

import (
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Init yields the init containers of a pod, sidecars included.
func Init(p *v1.Pod) iter.Seq[*v1.Container] { return each(p.Spec.InitContainers) }

// Apps yields the regular containers of a pod.
func Apps(p *v1.Pod) iter.Seq[*v1.Container] { return each(p.Spec.Containers) }

// Containers yields the containers that a pod has from its beginning: its init containers, then its regular ones.
func Containers(p *v1.Pod) iter.Seq[*v1.Container] { return chain(Init(p), Apps(p)) }

// Ephemeral yields the ephemeral containers of a pod.
func Ephemeral(p *v1.Pod) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		for i := range p.Spec.EphemeralContainers {
			c := v1.Container(p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			if !yield(&c) {
				return
			}
		}
	}
}

// All yields all containers of a pod: init, regular and ephemeral ones.
func All(p *v1.Pod) iter.Seq[*v1.Container] { return chain(Containers(p), Ephemeral(p)) }

func each(list []v1.Container) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

func chain(parts ...iter.Seq[*v1.Container]) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		for _, part := range parts {
			for c := range part {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// Find returns the container of that name, or nil.
func Find(p *v1.Pod, name string) *v1.Container { return find(All(p), name) }

// IsInit reports whether the container of that name is an init container.
func IsInit(p *v1.Pod, name string) bool { return find(Init(p), name) != nil }

// IsEphemeral reports whether the container of that name is an ephemeral one.
func IsEphemeral(p *v1.Pod, name string) bool { return find(Ephemeral(p), name) != nil }

func find(list iter.Seq[*v1.Container], name string) *v1.Container {
	for c := range list {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// MountedImages returns the names of the volumes that c mounts and that are images.
func MountedImages(p *v1.Pod, c *v1.Container) (names []string) {
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name })
		if i >= 0 && p.Spec.Volumes[i].Image != nil && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

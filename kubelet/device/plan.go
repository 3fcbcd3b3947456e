package device

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/numa"
)

// want is what one container asks of one resource.
type want struct {
	key
	number int
	// reuse are devices that init containers of the pod had and that it can have again.
	reuse []string
	// near are the NUMA nodes whose devices go first; none for any.
	near numa.Mask
}

// pick is how a want can be met: all of sure, and left more of pool, whose order counts if the plugin has no opinion.
type pick struct {
	sure, pool []string
	left       int
}

// choose finds devices for a container. It returns nothing to do (done) if the container has them already.
func (t *table) choose(w want) (p pick, done bool, err error) {
	have, claimed := t.claims[w.key]
	if claimed && len(have.devices) != w.number {
		return p, false, fmt.Errorf("pod %q container %q changed request for resource %q from %d to %d", w.pod,
			w.container, w.resource, len(have.devices), w.number)
	}

	healthy, registered := t.healthy(w.resource)
	switch {
	case !registered:
		return p, false, fmt.Errorf("cannot allocate unregistered device %s", w.resource)
	case len(healthy) == 0:
		return p, false, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", w.resource)
	}
	for _, d := range have.devices {
		if !slices.Contains(healthy, d.ID) {
			return p, false, fmt.Errorf(
				"previously allocated devices are no longer healthy; cannot allocate unhealthy devices %s", w.resource)
		}
	}
	if claimed || w.number == 0 {
		return p, true, nil
	}

	p.left = w.number
	for _, id := range w.reuse {
		if p.left > 0 {
			p.sure = append(p.sure, id)
			p.left--
		}
	}
	if p.left == 0 {
		return p, false, nil
	}

	used := t.used(w.resource)
	var free []string
	for _, id := range healthy {
		if !used[id] {
			free = append(free, id)
		}
	}
	if len(free) < p.left {
		return p, false, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d",
			w.resource, p.left, len(free))
	}
	p.fill(t.byNearness(w.resource, free, w.near))
	return p, false, nil
}

// fill takes from the devices that lie well, and from the others only if those are too few.
func (p *pick) fill(aligned, rest []string) {
	if p.left < len(aligned) {
		p.pool = aligned
		return
	}
	p.sure, p.left, p.pool = append(p.sure, aligned...), p.left-len(aligned), rest
}

// settle completes a pick: first what the plugin prefers, then what is left of the pool. What is preferred and not in
// the pool does not count.
func (p pick) settle(preferred []string) []string {
	out := slices.Clone(p.sure)
	for _, list := range [][]string{preferred, p.pool} {
		for _, id := range list {
			if len(out) < len(p.sure)+p.left && slices.Contains(p.pool, id) && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// lends reports whether a container ends before the next one of its pod starts, which can have its devices.
func lends(p *v1.Pod, c *v1.Container) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(i v1.Container) bool {
		return i.Name == c.Name && (i.RestartPolicy == nil || *i.RestartPolicy != v1.ContainerRestartPolicyAlways)
	})
}

// containersOf returns the containers of a pod, in the order in which devices are given.
func containersOf(p *v1.Pod) []*v1.Container {
	var out []*v1.Container
	for i := range p.Spec.InitContainers {
		out = append(out, &p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		out = append(out, &p.Spec.Containers[i])
	}
	return out
}

// byDRA reports whether an extended resource of a container is served by a resource claim, not by a plugin.
func byDRA(p *v1.Pod, container string, resource string) bool {
	st := p.Status.ExtendedResourceClaimStatus
	if st == nil {
		return false
	}
	return slices.ContainsFunc(st.RequestMappings, func(m v1.ContainerExtendedResourceRequest) bool {
		return m.ContainerName == container && m.ResourceName == resource
	})
}

package device

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// want is what one container asks of one resource.
type want struct {
	key
	number int
	// reuse are devices that init containers of the pod had and that it can have again.
	reuse []string
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
		return p, false, fmt.Errorf("pod %q container %q changed request for resource %q from %d to %d", w.pod, w.container, w.resource, len(have.devices), w.number)
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
			return p, false, fmt.Errorf("previously allocated devices are no longer healthy; cannot allocate unhealthy devices %s", w.resource)
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
	for _, id := range healthy {
		if !used[id] {
			p.pool = append(p.pool, id)
		}
	}
	if len(p.pool) < p.left {
		return p, false, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", w.resource, p.left, len(p.pool))
	}
	return p, false, nil
}

// settle completes a pick: first what the plugin prefers, then what is left of the pool. What is preferred and not in the pool does not
// count.
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

// step is one container of a pod, in the order in which devices are given.
type step struct {
	container *v1.Container
	// lends: the container ends before the next one starts, which can have its devices.
	lends bool
}

// steps returns the containers of a pod in that order.
func steps(p *v1.Pod) []step {
	var out []step
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		out = append(out, step{c, !sidecar})
	}
	for i := range p.Spec.Containers {
		out = append(out, step{&p.Spec.Containers[i], false})
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

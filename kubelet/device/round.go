package device

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resources "k8s.io/component-helpers/resource"

	"porthole.dev/porthole/kubelet/numa"
)

// Round gives the containers of one pod the devices that they ask for, in their order. It ends with Commit or Abort.
type Round struct {
	m    *Manager
	pod  *v1.Pod
	made []key
	lent map[string][]string // devices by resource that earlier init containers had
}

// Begin begins to give a pod devices.
func (m *Manager) Begin(p *v1.Pod) *Round { return &Round{m: m, pod: p, lent: map[string][]string{}} }

// Allocate gives the containers of a pod the devices that they ask for, from anywhere. It writes them down before it
// returns. A pod that has its devices keeps them. After an error the pod has none that it did not have before.
func (m *Manager) Allocate(ctx context.Context, p *v1.Pod) error {
	r := m.Begin(p)
	for _, c := range containersOf(p) {
		if err := r.Allocate(ctx, c, numa.Hint{}); err != nil {
			r.Abort()
			return err
		}
	}
	return r.Commit(ctx)
}

// Commit writes down what the pod has.
func (r *Round) Commit(ctx context.Context) error {
	if len(r.made) == 0 {
		return nil
	}
	if err := r.m.save(ctx); err != nil {
		r.Abort()
		return fmt.Errorf("writing down the devices of the pod: %w", err)
	}
	return nil
}

// Abort takes what the pod got in this round.
func (r *Round) Abort() {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	for _, k := range r.made {
		delete(r.m.table.claims, k)
	}
	r.made = nil
}

// Allocate gives one container its devices, from nodes of the hint first.
func (r *Round) Allocate(ctx context.Context, c *v1.Container, near numa.Hint) error {
	m := r.m
	lends := lends(r.pod, c)
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
		resource := string(name)
		q := c.Resources.Limits[name]
		if !m.serves(resource) || byDRA(r.pod, c.Name, resource) {
			continue
		}
		w := want{key: key{r.pod.UID, c.Name, resource}, number: int(q.Value()), reuse: r.lent[resource],
			near: near.Nodes}
		fresh, err := m.allocate(ctx, w)
		if err != nil {
			return err
		}
		if fresh {
			r.made = append(r.made, w.key)
		}

		m.mu.Lock()
		for _, d := range m.table.claims[w.key].devices {
			has := slices.Index(r.lent[resource], d.ID)
			switch {
			case lends && has < 0:
				r.lent[resource] = append(r.lent[resource], d.ID)
			case !lends && has >= 0:
				r.lent[resource] = slices.Delete(r.lent[resource], has, has+1)
			}
		}
		m.mu.Unlock()
	}
	return nil
}

// Hints returns, for each resource whose devices are near to NUMA nodes, from which nodes a container can have its
// devices; the pod as a whole for nil.
func (r *Round) Hints(c *v1.Container) [][]numa.Hint {
	limits := resources.PodLimits(r.pod, resources.PodResourcesOptions{ExcludeOverhead: true})
	container := ""
	if c != nil {
		limits, container = c.Resources.Limits, c.Name
	}
	m := r.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	var out [][]numa.Hint
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		q := limits[name]
		if m.table.kinds[string(name)] == nil || !m.table.placed(string(name)) ||
			c != nil && byDRA(r.pod, container, string(name)) {
			continue
		}
		w := want{key: key{r.pod.UID, container, string(name)}, number: int(q.Value())}
		if c != nil {
			w.reuse = r.lent[string(name)]
		}
		out = append(out, m.table.hints(w, m.o.Nodes))
	}
	return out
}

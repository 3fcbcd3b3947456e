package device

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Container is what a container gets because of its devices.
type Container struct {
	Env         []Variable
	Mounts      []Mount
	Nodes       []Node
	Annotations map[string]string
	// CDI are fully qualified names of devices that the runtime looks up itself.
	CDI []string
}

// Variable is one of the environment.
type Variable struct{ Name, Value string }

// Mount is a path of the node seen in the container.
type Mount struct {
	HostPath, ContainerPath string
	ReadOnly                bool
}

// Node is a device of the node seen in the container. Permissions has letters of r, w and m.
type Node struct{ HostPath, ContainerPath, Permissions string }

// Prepare tells the plugins that a container is about to start and returns what it gets. A container whose devices are
// not known, since the checkpoint was lost, gets devices now.
func (m *Manager) Prepare(ctx context.Context, p *v1.Pod, c *v1.Container) (Container, error) {
	var answers []*api.ContainerAllocateResponse
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
		k := key{p.UID, c.Name, string(name)}
		q := c.Resources.Limits[name]
		if !m.serves(k.resource) || q.IsZero() || byDRA(p, c.Name, k.resource) {
			continue
		}
		m.mu.Lock()
		have, ok := m.table.claims[k]
		m.mu.Unlock()
		if !ok {
			if err := m.Allocate(ctx, p); err != nil {
				return Container{}, err
			}
			m.mu.Lock()
			have = m.table.claims[k]
			m.mu.Unlock()
		}

		if err := m.prestart(ctx, k.resource, have); err != nil {
			return Container{}, err
		}
		answer := &api.ContainerAllocateResponse{}
		if err := proto.Unmarshal(have.answer, answer); err != nil {
			return Container{}, fmt.Errorf("reading the answer of the device plugin of %s: %w", k.resource, err)
		}
		answers = append(answers, answer)
	}
	return merge(answers), nil
}

// prestart tells the plugin of a resource. One that is gone at the moment cannot be told: the container has its
// devices.
func (m *Manager) prestart(ctx context.Context, resource string, c claim) error {
	m.mu.Lock()
	at := m.plugins[resource]
	m.mu.Unlock()
	if at == nil {
		return nil
	}
	var ids []string
	for _, d := range c.devices {
		ids = append(ids, d.ID)
	}
	if err := at.prestart(ctx, ids); err != nil {
		return fmt.Errorf("device plugin PreStartContainer rpc failed with err: %w", err)
	}
	return nil
}

// merge makes one of the answers of several plugins. Of what two of them give under one name, the first counts, and a
// path that is mounted twice with different sources is the first one's; both are as upstream.
func merge(answers []*api.ContainerAllocateResponse) Container {
	var out Container
	env := map[string]bool{}
	mounts := map[string]bool{}
	nodes := map[string]bool{}
	first := func(seen map[string]bool, name string) bool {
		was := seen[name]
		seen[name] = true
		return !was
	}

	for _, a := range answers {
		for _, name := range slices.Sorted(maps.Keys(a.Envs)) {
			if first(env, name) {
				out.Env = append(out.Env, Variable{name, a.Envs[name]})
			}
		}
		for _, d := range a.Mounts {
			if first(mounts, d.ContainerPath) {
				out.Mounts = append(out.Mounts, Mount{d.HostPath, d.ContainerPath, d.ReadOnly})
			}
		}
		for _, d := range a.Devices {
			if first(nodes, d.ContainerPath) {
				out.Nodes = append(out.Nodes, Node{d.HostPath, d.ContainerPath, d.Permissions})
			}
		}
		for name, value := range a.Annotations {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			if _, ok := out.Annotations[name]; !ok {
				out.Annotations[name] = value
			}
		}
		for _, d := range a.CdiDevices {
			if !slices.Contains(out.CDI, d.Name) {
				out.CDI = append(out.CDI, d.Name)
			}
		}
	}
	return out
}

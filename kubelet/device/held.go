package device

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Held is a device of a resource.
type Held struct {
	Resource string
	Device
}

// Held returns the devices of a pod, by container.
func (m *Manager) Held(uid types.UID) map[string][]Held {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string][]Held{}
	for _, k := range m.table.keys(uid) {
		for _, d := range m.table.claims[k].devices {
			out[k.container] = append(out[k.container], Held{k.resource, d})
		}
	}
	return out
}

// Healthy returns the healthy devices of the node.
func (m *Manager) Healthy() []Held {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Held
	for _, name := range m.table.names() {
		ids, _ := m.table.healthy(name)
		for _, d := range m.table.devicesOf(name, slices.Clone(ids)) {
			out = append(out, Held{name, d})
		}
	}
	return out
}

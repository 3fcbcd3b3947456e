package device

import (
	"context"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/checkpoint"
)

// noNode stands for no NUMA node in the checkpoint.
const noNode = -1

// recall takes in what an earlier kubelet wrote down. Its resources have no devices until their plugins register again.
func (m *Manager) recall() error {
	entries, registered, err := checkpoint.ReadDevices(filepath.Join(m.o.Dir, checkpointName))
	if err != nil {
		return err
	}
	for _, e := range entries {
		byID := map[string]*Device{}
		var list []*Device
		for _, node := range sortedNodes(e.DeviceIDs) {
			for _, id := range e.DeviceIDs[node] {
				d := byID[id]
				if d == nil {
					d = &Device{ID: id}
					byID[id] = d
					list = append(list, d)
				}
				if node != noNode {
					d.Nodes = append(d.Nodes, node)
				}
			}
		}

		c := claim{answer: e.AllocResp}
		for _, d := range list {
			c.devices = append(c.devices, *d)
		}
		slices.SortFunc(c.devices, func(a, b Device) int { return compareText(a.ID, b.ID) })
		m.table.claims[key{types.UID(e.PodUID), e.ContainerName, e.ResourceName}] = c
	}
	for name := range registered {
		m.table.lose(name, m.began)
	}
	return nil
}

// save writes the claims and the resources down. An error is logged.
func (m *Manager) save(ctx context.Context) error {
	m.written.Lock()
	defer m.written.Unlock()
	m.mu.Lock()
	entries, registered := m.table.record()
	m.mu.Unlock()
	err := checkpoint.WriteDevices(filepath.Join(m.o.Dir, checkpointName), entries, registered)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The devices of pods cannot be written down")
	}
	return err
}

// record returns the table as the checkpoint has it.
func (t *table) record() (entries []checkpoint.PodDevicesEntry, registered map[string][]string) {
	entries = []checkpoint.PodDevicesEntry{}
	registered = map[string][]string{}
	for _, k := range t.keys("") {
		c := t.claims[k]
		ids := checkpoint.DevicesPerNUMA{}
		for _, d := range c.devices {
			nodes := d.Nodes
			if len(nodes) == 0 {
				nodes = []int64{noNode}
			}
			for _, n := range nodes {
				ids[n] = append(ids[n], d.ID)
			}
		}
		entries = append(entries,
			checkpoint.PodDevicesEntry{PodUID: string(k.pod), ContainerName: k.container, ResourceName: k.resource,
				DeviceIDs: ids, AllocResp: c.answer})
	}
	for _, name := range t.names() {
		ids, _ := t.healthy(name)
		registered[name] = append([]string{}, ids...)
	}
	return entries, registered
}

package allot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/dra"
	"porthole.dev/porthole/kubelet/pin"
)

// Resources tells programs of the node what its pods have. Manager.Resources returns one.
type Resources struct{ m *Manager }

// Resources tells what the pods of the node have.
func (m *Manager) Resources() Resources { return Resources{m} }

// ActivePods are the pods that have not ended.
func (r Resources) ActivePods() []*v1.Pod {
	var out []*v1.Pod
	for _, v := range r.m.o.Pods() {
		if p := v.Pod; p != nil && p.Status.Phase != v1.PodFailed && p.Status.Phase != v1.PodSucceeded {
			out = append(out, p)
		}
	}
	return out
}

// PodDevices are the devices of a pod, by container.
func (r Resources) PodDevices(uid types.UID) map[string][]device.Held { return r.m.held.Held(uid) }

// HealthyDevices are those that the node has for pods.
func (r Resources) HealthyDevices() []device.Held { return r.m.held.Healthy() }

// Claims are the claims of a container, with their devices.
func (r Resources) Claims(p *v1.Pod, c *v1.Container) []dra.Held { return r.m.claims.Held(p, c) }

// Alone are the processors and the memory that a container has alone.
func (r Resources) Alone(uid types.UID, container string) (cpus []int, memory []pin.Block) {
	if p := r.m.o.Pins; p != nil {
		return p.Exclusive(uid, container).List(), p.Memory(uid, container)
	}
	return nil, nil
}

// ForPods are the processors and the memory that containers can get alone.
func (r Resources) ForPods() (cpus []int, memory []pin.Block) {
	if p := r.m.o.Pins; p != nil {
		set, blocks := p.ForPods()
		return set.List(), blocks
	}
	return nil, nil
}

// Asked counts a call of the PodResources API, by its name, and whether it failed.
func (r Resources) Asked(call string, failed bool) { r.m.o.Meter.PodResources(call, failed) }

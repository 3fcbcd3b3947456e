package device

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Health returns the devices of each container of a pod with their health, as the pod's status shows it. A device that
// its plugin no longer lists counts as healthy, as with upstream: nothing says that it is not.
func (m *Manager) Health(uid types.UID) map[string][]v1.ResourceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.health(uid)
}

func (t *table) health(uid types.UID) map[string][]v1.ResourceStatus {
	out := map[string][]v1.ResourceStatus{}
	for _, k := range t.keys(uid) {
		one := v1.ResourceStatus{Name: v1.ResourceName(k.resource), Resources: []v1.ResourceHealth{}}
		for _, d := range t.claims[k].devices {
			health := v1.ResourceHealthStatusHealthy
			if kind := t.kinds[k.resource]; kind != nil {
				if now, listed := kind.devices[d.ID]; listed && !now.Healthy {
					health = v1.ResourceHealthStatusUnhealthy
				}
			}
			one.Resources = append(one.Resources, v1.ResourceHealth{ResourceID: v1.ResourceID(d.ID), Health: health})
		}
		out[k.container] = append(out[k.container], one)
	}
	return out
}

// WithHealth adds the health of devices to the statuses of a pod's containers. Init containers have none, as with
// upstream.
func WithHealth(statuses []v1.ContainerStatus, health map[string][]v1.ResourceStatus) []v1.ContainerStatus {
	if len(health) == 0 {
		return statuses
	}
	out := slices.Clone(statuses)
	for i := range out {
		out[i].AllocatedResourcesStatus = health[out[i].Name]
	}
	return out
}

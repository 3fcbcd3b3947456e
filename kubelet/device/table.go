package device

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Device is one device of a plugin.
type Device struct {
	ID      string
	Healthy bool
	// Nodes are the NUMA nodes that the device is near to; none if the plugin does not say.
	Nodes []int64
}

// key names what one container has of one resource.
type key struct {
	pod       types.UID
	container string
	resource  string
}

// claim is what one container has of one resource. answer is the plugin's, in protobuf; nil while the plugin is asked.
type claim struct {
	devices []Device // as they were when they were claimed, by id
	answer  []byte
}

// kind is one resource with the devices that its plugin lists.
type kind struct {
	devices map[string]Device
	// gone is when the plugin went away; zero while it is there. What a plugin that is gone listed is not healthy.
	gone time.Time
}

// gracePeriod is how long the devices of a plugin that is gone still count as the node's, unhealthy.
const gracePeriod = 5 * time.Minute

// table is what is known of all devices. It computes only.
type table struct {
	kinds  map[string]*kind
	claims map[key]claim
}

func newTable() *table { return &table{kinds: map[string]*kind{}, claims: map[key]claim{}} }

// healthy returns the ids of the healthy devices of a resource, in order. registered is false for a resource that no
// plugin ever had.
func (t *table) healthy(name string) (ids []string, registered bool) {
	k := t.kinds[name]
	if k == nil {
		return nil, false
	}
	for id, d := range k.devices {
		if d.Healthy {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, true
}

// replace puts the devices of a plugin in the place of those that it listed before.
func (t *table) replace(name string, devices []Device) {
	k := &kind{devices: map[string]Device{}}
	for _, d := range devices {
		k.devices[d.ID] = d
	}
	t.kinds[name] = k
}

// lose takes note that the plugin of a resource is gone.
func (t *table) lose(name string, now time.Time) {
	k := t.kinds[name]
	if k == nil {
		k = &kind{devices: map[string]Device{}}
		t.kinds[name] = k
	}
	for id, d := range k.devices {
		d.Healthy = false
		k.devices[id] = d
	}
	k.gone = now
}

// used returns the devices of a resource that containers have.
func (t *table) used(name string) map[string]bool {
	out := map[string]bool{}
	for k, c := range t.claims {
		if k.resource == name {
			for _, d := range c.devices {
				out[d.ID] = true
			}
		}
	}
	return out
}

// keys returns the claims of a pod, or all of them for "", in order.
func (t *table) keys(pod types.UID) []key {
	var out []key
	for k := range t.claims {
		if pod == "" || k.pod == pod {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b key) int {
		return cmp.Or(strings.Compare(string(a.pod), string(b.pod)), strings.Compare(a.container, b.container),
			strings.Compare(a.resource, b.resource))
	})
	return out
}

// release ends the claims of a pod and reports whether it had any.
func (t *table) release(pod types.UID) bool {
	list := t.keys(pod)
	for _, k := range list {
		delete(t.claims, k)
	}
	return len(list) > 0
}

// Amounts are the node's resources that plugins give it.
type Amounts struct {
	// Capacity counts all devices, Allocatable the healthy ones. A resource whose plugin has been gone for long has
	// zero of both.
	Capacity, Allocatable v1.ResourceList
}

// amounts counts the devices at a time.
func (t *table) amounts(now time.Time) Amounts {
	out := Amounts{v1.ResourceList{}, v1.ResourceList{}}
	count := func(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }
	for name, k := range t.kinds {
		ids, _ := t.healthy(name)
		all := len(k.devices)
		if !k.gone.IsZero() && now.Sub(k.gone) >= gracePeriod {
			all = 0
		}
		out.Capacity[v1.ResourceName(name)], out.Allocatable[v1.ResourceName(name)] = count(all), count(len(ids))
	}
	return out
}

// held counts the devices that containers have, by resource.
func (t *table) held() map[string]int {
	out := map[string]int{}
	for k := range t.claims {
		if _, seen := out[k.resource]; !seen {
			out[k.resource] = len(t.used(k.resource))
		}
	}
	return out
}

// devicesOf looks up devices of a resource by their ids; one that the plugin no longer lists has its id only.
func (t *table) devicesOf(name string, ids []string) []Device {
	var out []Device
	for _, id := range slices.Sorted(slices.Values(ids)) {
		d := Device{ID: id}
		if k := t.kinds[name]; k != nil {
			if known, ok := k.devices[id]; ok {
				d = known
			}
		}
		out = append(out, d)
	}
	return out
}

// names returns the resources that have or had a plugin, in order.
func (t *table) names() []string { return slices.Sorted(maps.Keys(t.kinds)) }

package dra

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// claimKey names a claim.
type claimKey struct{ namespace, name string }

func (k claimKey) String() string { return k.namespace + "/" + k.name }

// claim is what is known of one ResourceClaim.
type claim struct {
	uid  types.UID
	pods map[types.UID]bool
	// drivers are those of the allocation, with the devices that they have named; a driver may name none.
	drivers map[string][]Device
	// prepared: all drivers have said so to this kubelet. A kubelet that starts asks again before the next pod starts:
	// the machine may have booted.
	prepared bool
}

// table is all claims that drivers were asked to prepare, or are about to be.
type table map[claimKey]*claim

// use notes that a pod uses a claim of these drivers.
func (t table) use(key claimKey, uid, pod types.UID, drivers []string) error {
	c := t[key]
	if c == nil {
		c = &claim{uid: uid, pods: map[types.UID]bool{}, drivers: map[string][]Device{}}
		for _, d := range drivers {
			c.drivers[d] = nil
		}
		t[key] = c
	}
	if c.uid != uid {
		return fmt.Errorf(
			"old ResourceClaim with same name %s and different UID %s still exists (previous pod force-deleted?!)",
			key.name, c.uid)
	}
	c.pods[pod] = true
	return nil
}

// calls are the claims that each driver is to be called for.
type calls map[string][]claimKey

// toPrepare returns which drivers have to be called before these claims can be used.
func (t table) toPrepare(keys []claimKey) calls {
	out := calls{}
	for _, key := range keys {
		if c := t[key]; !c.prepared {
			for d := range c.drivers {
				out[d] = append(out[d], key)
			}
		}
	}
	return out
}

// of returns the claims of a pod, in the order of their names.
func (t table) of(pod types.UID) (out []claimKey) {
	for key, c := range t {
		if c.pods[pod] {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, func(a, b claimKey) int { return cmp.Compare(a.String(), b.String()) })
	return out
}

// toUnprepare returns which drivers have to be called after the end of a pod: for those of its claims that no other
// pod has.
func (t table) toUnprepare(pod types.UID) calls {
	out := calls{}
	for _, key := range t.of(pod) {
		if len(t[key].pods) == 1 {
			for d := range t[key].drivers {
				out[d] = append(out[d], key)
			}
		}
	}
	return out
}

// leave forgets a pod, and those of its claims that no other pod has.
func (t table) leave(pod types.UID) {
	for _, key := range t.of(pod) {
		if delete(t[key].pods, pod); len(t[key].pods) == 0 {
			delete(t, key)
		}
	}
}

// pods returns all pods that have claims.
func (t table) pods() []types.UID {
	all := map[types.UID]bool{}
	for _, c := range t {
		maps.Copy(all, c.pods)
	}
	return slices.Sorted(maps.Keys(all))
}

// devices returns the devices of a share. known is false for a claim that is not in the table.
func (t table) devices(s share) (out []Device, known bool) {
	c := t[s.key]
	if c == nil {
		return nil, false
	}
	for _, driver := range slices.Sorted(maps.Keys(c.drivers)) {
		for _, d := range c.drivers[driver] {
			if s.has(d) {
				out = append(out, d)
			}
		}
	}
	return out, true
}

// counts are the prepared claims by driver.
func (t table) counts() map[string]int {
	out := map[string]int{AnyDriver: 0}
	for _, c := range t {
		if !c.prepared {
			continue
		}
		out[AnyDriver]++
		for d := range c.drivers {
			out[d]++
		}
	}
	return out
}

// users returns the pods that have one of these devices of a driver.
func (t table) users(driver string, devices map[poolDevice]bool) (out []types.UID) {
	for _, c := range t {
		if slices.ContainsFunc(c.drivers[driver], func(d Device) bool { return devices[poolDevice{d.Pool, d.Name}] }) {
			out = append(out, slices.Collect(maps.Keys(c.pods))...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

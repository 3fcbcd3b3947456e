package device

import (
	"cmp"
	"maps"
	"slices"

	"porthole.dev/porthole/kubelet/numa"
)

// placed reports whether it is known of a resource to which NUMA nodes its devices are near.
func (t *table) placed(name string) bool {
	k := t.kinds[name]
	return k != nil && slices.ContainsFunc(slices.Collect(maps.Values(k.devices)),
		func(d Device) bool { return len(d.Nodes) > 0 })
}

// mask returns the NUMA nodes of a device.
func (d Device) mask() numa.Mask {
	var out numa.Mask
	for _, n := range d.Nodes {
		if n >= 0 && n < 64 {
			out |= numa.MaskOf(int(n))
		}
	}
	return out
}

// hints returns from which of the machine's nodes a want can be met. A want without a container is that of a pod as a
// whole.
func (t *table) hints(w want, machine []int) []numa.Hint {
	devices := t.kinds[w.resource].devices
	free, reuse := map[string]bool{}, w.reuse
	for _, k := range t.keys(w.pod) {
		if k.resource == w.resource && (w.container == "" || k.container == w.container) {
			for _, d := range t.claims[k].devices {
				free[d.ID] = true
			}
		}
	}
	switch {
	case len(free) > 0 && len(free) != w.number:
		return numa.Impossible()
	case len(free) > 0:
		reuse = nil // it has them
	default:
		healthy, _ := t.healthy(w.resource)
		used := t.used(w.resource)
		for _, id := range healthy {
			if !used[id] {
				free[id] = true
			}
		}
	}

	var all numa.Mask
	for _, d := range devices {
		all |= d.mask()
	}
	nodes := (all & numa.MaskOf(machine...)).Nodes()
	if len(nodes) == 0 {
		nodes = machine
	}
	least, out := len(nodes), []numa.Hint{}
	for _, m := range numa.Masks(nodes) {
		in := func(id string) bool { return devices[id].mask()&m != 0 }
		if count(maps.Keys(devices), in) >= w.number {
			least = min(least, m.Count())
		}
		away := slices.ContainsFunc(reuse, func(id string) bool { return len(devices[id].Nodes) > 0 && !in(id) })
		if !away && count(slices.Values(reuse), in)+count(maps.Keys(free), in) >= w.number {
			out = append(out, numa.Hint{Nodes: m})
		}
	}
	if len(out) == 0 {
		return numa.Impossible()
	}
	return numa.Prefer(out, least)
}

func count(ids func(func(string) bool), in func(string) bool) (n int) {
	for id := range ids {
		if in(id) {
			n++
		}
	}
	return n
}

// byNearness splits free devices into those of the wanted nodes, and all others in the order in which they are taken:
// those of other nodes, then those of no node. Devices of nodes with fewer free ones come first.
func (t *table) byNearness(name string, free []string, near numa.Mask) (aligned, rest []string) {
	if near == 0 || !t.placed(name) {
		return nil, free
	}
	devices, perNode := t.kinds[name].devices, map[int64]int{}
	for _, id := range free {
		for _, n := range devices[id].Nodes {
			perNode[n]++
		}
	}
	rank := func(id string) int {
		switch m := devices[id].mask(); {
		case m&near != 0:
			return 0
		case m != 0:
			return 1
		}
		return 2
	}
	fewest := func(id string) int {
		least := len(free)
		for _, n := range devices[id].Nodes {
			if rank(id) > 0 || near.Has(int(n)) {
				least = min(least, perNode[n])
			}
		}
		return least
	}

	sorted := slices.SortedFunc(slices.Values(free), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(fewest(a), fewest(b)), cmp.Compare(a, b))
	})
	split := slices.IndexFunc(sorted, func(id string) bool { return rank(id) > 0 })
	if split < 0 {
		return sorted, nil
	}
	return sorted[:split], sorted[split:]
}

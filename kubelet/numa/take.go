package numa

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"
)

// Take chooses n of the free processors, so that they are near to each other and break up as little as possible: whole
// nodes and sockets first, then whole cores, then single ones. Of equals, those are taken first of whose group fewer
// are free. With oneCache, those of as few caches as possible come before cores.
func Take(m *Machine, free cpuset.CPUSet, n int, oneCache bool) (cpuset.CPUSet, error) {
	if n > free.Size() {
		return cpuset.New(), fmt.Errorf("not enough cpus available to satisfy request: requested=%d, available=%d", n,
			free.Size())
	}
	t := &taking{Machine: m, free: free, left: n}
	outer, inner := m.layers()
	t.whole(outer)
	t.whole(outer, inner)
	if oneCache {
		t.caches()
	}
	t.whole(outer, inner, byCore)
	for _, core := range t.order(outer, inner, byCore) {
		for _, id := range t.members(core, byCore).List() {
			if t.left > 0 {
				t.take(cpuset.New(id))
			}
		}
	}
	return t.got, nil
}

// taking is what was taken so far.
type taking struct {
	*Machine
	free, got cpuset.CPUSet
	left      int
}

func (t *taking) take(set cpuset.CPUSet) {
	t.got, t.free = t.got.Union(set), t.free.Difference(set)
	t.left -= set.Size()
}

// members returns the free processors of a group.
func (t *taking) members(group int, by layer) cpuset.CPUSet {
	return t.filter(t.free, func(p Place) bool { return by(p) == group })
}

// whole takes groups of the last layer that are free as a whole, as long as one is not more than what is left to take.
func (t *taking) whole(layers ...layer) {
	by := layers[len(layers)-1]
	all := t.groups(t.All(), by)
	for _, group := range t.order(layers...) {
		if free := t.members(group, by); free.Size() <= t.left && free.Size() == all[group].Size() {
			t.take(free)
		}
	}
}

// caches takes whole caches as long as one is not more than what is left to take, and then all the rest from the first
// cache that has it.
func (t *taking) caches() {
	layers := []layer{byNode, byCache}
	if t.socketsFirst() {
		layers = []layer{bySocket, byNode, byCache}
	}
	usual := len(t.CPUs) / max(len(t.groups(t.All(), byCache)), 1)
	for _, cache := range t.order(layers...) {
		if t.left >= usual {
			t.whole(layers...)
		}
		if rest := t.inCache(cache); t.left > 0 && rest.Size() == t.left {
			t.take(rest)
		}
	}
}

// inCache returns the free processors of the first cores of a cache, of as many as what is left to take needs. If that
// is an odd number, one less may be enough.
func (t *taking) inCache(cache int) cpuset.CPUSet {
	var cores []int
	for core := range t.groups(t.members(cache, byCache), byCore) {
		cores = append(cores, core)
	}
	slices.Sort(cores)
	per := t.PerCore()
	cores = cores[:min(len(cores), (t.left+per-1)/per)]

	ids := t.filter(t.free, func(p Place) bool { return slices.Contains(cores, p.Core) }).List()
	if t.left%2 != 0 && per > 1 && len(ids) > t.left {
		ids = ids[:len(ids)-1]
	}
	return cpuset.New(ids...)
}

// order returns the groups of the last layer (for example cores) that have free processors. They are sorted by the
// groups that contain them, in the order of the layers before the last (for example by socket).
func (t *taking) order(layers ...layer) []int {
	var out []int
	var walk func(within cpuset.CPUSet, layers []layer)
	walk = func(within cpuset.CPUSet, layers []layer) {
		found := t.groups(within, layers[0])
		var ids []int
		for id := range found {
			found[id] = t.members(id, layers[0]) // a node may lie in several sockets
			ids = append(ids, id)
		}
		slices.SortFunc(ids, func(a, b int) int {
			return cmp.Or(cmp.Compare(found[a].Size(), found[b].Size()), cmp.Compare(a, b))
		})
		for _, id := range ids {
			if len(layers) == 1 {
				out = append(out, id)
			} else {
				walk(found[id], layers[1:])
			}
		}
	}
	walk(t.free, layers)
	return out
}

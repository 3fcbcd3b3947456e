package numa

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"
)

// Take chooses n of the free processors, so that they are near to each other and break up as little as possible: whole nodes and sockets
// first, then whole cores, then single ones. Of equals, those are taken first of whose group fewer are free.
func Take(m *Machine, free cpuset.CPUSet, n int) (cpuset.CPUSet, error) {
	if n > free.Size() {
		return cpuset.New(), fmt.Errorf("not enough cpus available to satisfy request: requested=%d, available=%d", n, free.Size())
	}
	t := &taking{Machine: m, free: free, left: n}
	outer, inner := m.layers()
	t.whole(outer)
	t.whole(outer, inner)
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

// order returns the groups of the last layer (for example cores) that have free processors. They are sorted by the groups that contain them, in the order of
// the layers before the last (for example by socket).
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

package numa

import (
	"maps"
	"slices"

	"k8s.io/utils/cpuset"
)

// Machine is where processors and memory are.
type Machine struct {
	CPUs  map[int]Place // that are online
	Nodes []Node        // in order of their ids
}

// Place is where a processor is. A core has the number of its first processor, so that it differs from all others of
// the machine. Cache is the last cache that it has together with a part of its node; where all of a node has one, that
// is the number of the socket.
type Place struct{ Node, Socket, Cache, Core int }

// Node is a NUMA node: memory, and the processors that are near to it.
type Node struct {
	ID     int
	Memory uint64 // bytes
	// HugePages counts the pages that are set aside, by their size in bytes. A size without pages is in it if the
	// system knows it.
	HugePages map[uint64]uint64
	// Distances are those to each node, in the order of Machine.Nodes. A shorter one is better.
	Distances []uint64
}

// All returns the processors of the machine.
func (m *Machine) All() cpuset.CPUSet { return cpuset.New(slices.Collect(maps.Keys(m.CPUs))...) }

// NodeIDs returns the NUMA nodes of the machine.
func (m *Machine) NodeIDs() []int {
	var out []int
	for _, n := range m.Nodes {
		out = append(out, n.ID)
	}
	return out
}

// In returns which processors of a set are near to some nodes.
func (m *Machine) In(set cpuset.CPUSet, nodes Mask) cpuset.CPUSet {
	return m.filter(set, func(p Place) bool { return nodes.Has(p.Node) })
}

// Cores returns all processors of the cores that have one in a set.
func (m *Machine) Cores(set cpuset.CPUSet) cpuset.CPUSet {
	cores := map[int]bool{}
	for _, id := range set.UnsortedList() {
		cores[m.CPUs[id].Core] = true
	}
	return m.filter(m.All(), func(p Place) bool { return cores[p.Core] })
}

// PerCore returns how many processors a core has.
func (m *Machine) PerCore() int {
	cores := len(m.groups(m.All(), byCore))
	if cores == 0 {
		return 1
	}
	return len(m.CPUs) / cores
}

func (m *Machine) filter(set cpuset.CPUSet, keep func(Place) bool) cpuset.CPUSet {
	var out []int
	for _, id := range set.UnsortedList() {
		if p, known := m.CPUs[id]; known && keep(p) {
			out = append(out, id)
		}
	}
	return cpuset.New(out...)
}

// layer says in which group of one kind a processor is.
type layer func(Place) int

func byNode(p Place) int   { return p.Node }
func bySocket(p Place) int { return p.Socket }
func byCache(p Place) int  { return p.Cache }
func byCore(p Place) int   { return p.Core }

// groups sorts the processors of a set into the groups of a layer.
func (m *Machine) groups(set cpuset.CPUSet, by layer) map[int]cpuset.CPUSet {
	lists := map[int][]int{}
	for _, id := range set.UnsortedList() {
		if p, known := m.CPUs[id]; known {
			lists[by(p)] = append(lists[by(p)], id)
		}
	}
	out := map[int]cpuset.CPUSet{}
	for group, list := range lists {
		out[group] = cpuset.New(list...)
	}
	return out
}

// layers returns the two outer layers, the wider one first: a socket may have several nodes, or a node several sockets.
func (m *Machine) layers() (outer, inner layer) {
	if m.socketsFirst() {
		return bySocket, byNode
	}
	return byNode, bySocket
}

func (m *Machine) socketsFirst() bool {
	all := m.All()
	return len(m.groups(all, bySocket)) < len(m.groups(all, byNode))
}

package numa

import (
	"math/bits"
	"slices"
)

// Mask is a set of NUMA nodes, whose ids are below 64. The zero Mask, no node at all, stands for any node.
type Mask uint64

// maxNodes is how many nodes a Mask can have.
const maxNodes = 64

// MaskOf returns the set of these nodes.
func MaskOf(nodes ...int) Mask {
	var m Mask
	for _, n := range nodes {
		m |= 1 << n
	}
	return m
}

// Has reports whether a node is in the set.
func (m Mask) Has(node int) bool { return node >= 0 && node < maxNodes && m&(1<<node) != 0 }

// Count returns how many nodes are in the set.
func (m Mask) Count() int { return bits.OnesCount64(uint64(m)) }

// Nodes returns the ids in order.
func (m Mask) Nodes() []int {
	out := []int{}
	for rest := uint64(m); rest != 0; rest &= rest - 1 {
		out = append(out, bits.TrailingZeros64(rest))
	}
	return out
}

// narrower reports whether m has fewer nodes than other, or as many and lower ones.
func (m Mask) narrower(other Mask) bool {
	if m.Count() == other.Count() {
		return m < other
	}
	return m.Count() < other.Count()
}

// Masks returns all sets that can be made of some of nodes: the smallest first, and those of lower nodes before others.
func Masks(nodes []int) []Mask {
	var out []Mask
	var choose func(from, left int, have Mask)
	choose = func(from, left int, have Mask) {
		if left == 0 {
			out = append(out, have)
			return
		}
		for i := from; i <= len(nodes)-left; i++ {
			choose(i+1, left-1, have|1<<nodes[i])
		}
	}
	nodes = slices.Sorted(slices.Values(nodes))
	for n := 1; n <= len(nodes); n++ {
		choose(0, n, 0)
	}
	return out
}

package numa

// Hint is a set of nodes from which a container can have a resource, or several. A hint with no node says that any
// will do.
type Hint struct {
	Nodes     Mask
	Preferred bool
}

// NoPreference are the hints for a resource that may come from anywhere, Impossible those for one that cannot be had.
func NoPreference() []Hint { return []Hint{{Preferred: true}} }

// Impossible are the hints for a resource that cannot be had.
func Impossible() []Hint { return []Hint{{}} }

// Prefer marks the hints with the least number of nodes that could do if nobody else had anything.
func Prefer(hints []Hint, least int) []Hint {
	for i := range hints {
		hints[i].Preferred = hints[i].Nodes.Count() == least
	}
	return hints
}

// The policies by which hints are merged.
const (
	PolicyNone       = "none"
	PolicyBestEffort = "best-effort"
	PolicyRestricted = "restricted"
	PolicySingleNode = "single-numa-node"
)

// Policy says how the resources of a container have to lie to each other.
type Policy struct {
	Name    string
	Closest bool // of equally many nodes, those with the shortest way to each other are best
	Machine *Machine
}

// Merge finds the best nodes for several resources, each with the hints for it. ok is false if the policy does not
// allow the container to run without better ones.
func (p Policy) Merge(lists [][]Hint) (best Hint, ok bool) {
	if p.Name == PolicySingleNode {
		lists = onlySingle(lists)
	}
	all := MaskOf(p.Machine.NodeIDs()...)
	m := merging{Policy: p, enough: widestNeed(lists)}
	m.combine(lists, Hint{all, true}, 0)
	best = m.best
	if best.Nodes == 0 {
		best = Hint{Nodes: all}
	}

	switch p.Name {
	case PolicySingleNode:
		if best.Nodes == all {
			best.Nodes = 0
		}
		return best, best.Preferred
	case PolicyRestricted:
		return best, best.Preferred
	}
	return best, true
}

// onlySingle keeps hints that are good, and have one node or any.
func onlySingle(lists [][]Hint) [][]Hint {
	out := make([][]Hint, len(lists))
	for i, list := range lists {
		for _, h := range list {
			if h.Preferred && h.Nodes.Count() <= 1 {
				out[i] = append(out[i], h)
			}
		}
	}
	return out
}

// widestNeed returns, for the resource that needs the most NUMA nodes, the smallest number of nodes that can serve it.
func widestNeed(lists [][]Hint) int {
	widest := 0
	for _, list := range lists {
		var narrowest Mask
		for _, h := range list {
			if h.Nodes != 0 && (narrowest == 0 || h.Nodes.narrower(narrowest)) {
				narrowest = h.Nodes
			}
		}
		widest = max(widest, narrowest.Count())
	}
	return widest
}

// merging is the best hint so far. enough is the number of nodes that a hint which is not good should have: with
// fewer, one of the resources is spread although it would not have to be.
type merging struct {
	Policy
	enough int
	best   Hint // no nodes: none yet
}

// combine tries each hint of each list with each of the others. first is the mask that the hints so far agree on, 0
// for none.
func (m *merging) combine(lists [][]Hint, have Hint, first Mask) {
	if len(lists) == 0 {
		m.consider(have)
		return
	}
	for _, h := range lists[0] {
		next, agreed := have, first
		if h.Nodes != 0 {
			if first == 0 {
				agreed = h.Nodes
			}
			next.Nodes &= h.Nodes
			next.Preferred = next.Preferred && h.Nodes == agreed
		}
		next.Preferred = next.Preferred && h.Preferred
		m.combine(lists[1:], next, agreed)
	}
}

// consider takes a hint if it is better than the best one so far.
func (m *merging) consider(h Hint) {
	switch {
	case h.Nodes == 0:
	case m.best.Nodes == 0:
		m.best = h
	case h.Preferred != m.best.Preferred:
		if h.Preferred {
			m.best = h
		}
	case h.Preferred:
		m.best = m.closer(m.best, h)
	default:
		m.best = m.lessBad(m.best, h)
	}
}

// lessBad compares two hints that are not good. The one with enough nodes wins, then the one with nearly enough.
func (m *merging) lessBad(now, h Hint) Hint {
	have, get := now.Nodes.Count(), h.Nodes.Count()
	switch {
	case have > m.enough, have == get:
		return m.closer(now, h)
	case have == m.enough:
		return now
	case get > m.enough:
		return now
	case get == m.enough || get > have:
		return h
	}
	return now
}

// closer compares two hints by their nodes alone.
func (m *merging) closer(now, h Hint) Hint {
	if now.Nodes == h.Nodes {
		return now
	}
	better := h.Nodes.narrower(now.Nodes)
	if m.Closest && m.Name != PolicySingleNode && now.Nodes.Count() == h.Nodes.Count() {
		a := m.Machine.distance(now.Nodes)
		b := m.Machine.distance(h.Nodes)
		if a != b {
			better = b < a
		}
	}
	if better {
		return h
	}
	return now
}

// distance is the mean of the distances between the nodes of a set.
func (m *Machine) distance(set Mask) float64 {
	var sum, count float64
	for _, from := range m.Nodes {
		for i, to := range m.Nodes {
			if set.Has(from.ID) && set.Has(to.ID) && i < len(from.Distances) {
				sum += float64(from.Distances[i])
				count++
			}
		}
	}
	if count == 0 {
		return 0
	}
	return sum / count
}

package service

import (
	"cmp"
	"slices"
)

// backendSets are the backends of one service port in one family, for the two traffic policies. Neither is nil.
type backendSets struct{ cluster, local []Backend }

// candidate is an endpoint with its port.
type candidate struct {
	*endpoint
	hints *hints // nil: none
	port  uint16
}

// backends returns the backends for each traffic policy: ready endpoints, or if there are none, those that terminate
// but still serve. For the policy Cluster, topology hints count.
func (e *entry) backends(p *port, v6 bool, node Node) *backendSets {
	all := e.candidates(p, v6)
	nearby := near(all, node)
	return &backendSets{
		cluster: choose(all, func(c candidate) bool { return nearby == nil || nearby(c.hints) },
			func(candidate) bool { return true }),
		local: choose(all, func(c candidate) bool { return c.has(local) },
			func(c candidate) bool { return c.has(local) }),
	}
}

// choose returns the ready endpoints that wanted admits; without any, the terminating ones that still serve and that
// fallback admits.
func choose(all []candidate, wanted, fallback func(candidate) bool) []Backend {
	take := func(c condition, admits func(candidate) bool) []Backend {
		n := 0
		for _, a := range all {
			if a.has(c) && admits(a) {
				n++
			}
		}
		// the exact size: the list is kept, and grown lists would leave garbage between kept ones
		out := make([]Backend, 0, n)
		for _, a := range all {
			if a.has(c) && admits(a) {
				out = append(out, Backend{Addr: a.addr, Port: a.port, Local: a.has(local)})
			}
		}
		return out
	}
	if out := take(ready, wanted); len(out) > 0 {
		return out
	}
	return take(serving|terminating, fallback)
}

// candidates merges the slices, ordered by address and port. An endpoint in two slices is there once.
func (e *entry) candidates(p *port, v6 bool) []candidate {
	var out []candidate
	for _, s := range e.slices {
		if s.v6 != v6 {
			continue
		}
		for _, number := range s.numbers(p) {
			out = slices.Grow(out, len(s.endpoints))
			for i := range s.endpoints {
				out = append(out, candidate{&s.endpoints[i], s.hintsOf(i), number})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.port, b.port), b.preference()-a.preference())
	})
	return slices.CompactFunc(out, func(a, b candidate) bool { return a.addr == b.addr && a.port == b.port })
}

// numbers returns the slice's ports for a service port, by name and protocol: named target ports may differ between
// slices.
func (s *slice) numbers(p *port) []uint16 {
	var out []uint16
	for i := range s.ports {
		if s.ports[i].name == p.name && s.ports[i].protocol == p.protocol {
			out = append(out, s.ports[i].number)
		}
	}
	return out
}

// near returns a function that reports whether hints name this node or its zone, or nil if hints do not count: every
// ready endpoint must have them, and one must name this node, or else its zone.
func near(all []candidate, node Node) func(*hints) bool {
	byNode := func(h *hints) []string { return h.nodes }
	byZone := func(h *hints) []string { return h.zones }
	for _, place := range []struct {
		name  string
		hints func(*hints) []string
	}{{node.Name, byNode}, {node.Zone, byZone}} {
		if hinted(all, place.name, place.hints) {
			return func(h *hints) bool { return slices.Contains(place.hints(h), place.name) }
		}
	}
	return nil
}

// hinted reports whether every ready endpoint has hints of a kind and one of them names the place.
func hinted(all []candidate, place string, of func(*hints) []string) bool {
	here := false
	for _, c := range all {
		if !c.has(ready) {
			continue
		}
		if c.hints == nil || len(of(c.hints)) == 0 {
			return false
		}
		here = here || slices.Contains(of(c.hints), place)
	}
	return here
}

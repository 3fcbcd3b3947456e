package service

import (
	"fmt"
	"net/netip"
	"slices"
)

// state computes what an entry's service wants of this node.
func (t *Tracker) state(e *entry) State {
	s := State{Service: e.name, Rank: RankOther}
	w := e.service
	if w == nil {
		return s
	}
	s.Rank = int(w.rank)
	s.Problems = slices.Clone(w.problems)
	s.Triggered = e.triggered
	b := builder{tracker: t, entry: e, state: &s, sets: map[setKey]*backendSets{}}
	w.frontends(b.add)
	if w.healthPort != 0 && len(w.cluster) > 0 {
		s.HealthCheck = &HealthCheck{Service: e.name, Port: w.healthPort,
			LocalEndpoints: e.localReady(w.cluster[0].Is6())}
	}
	return s
}

// localReady counts the addresses of ready endpoints on this node. Ports do not count: a service with two ports has
// each pod once.
func (e *entry) localReady(v6 bool) int {
	found := map[netip.Addr]bool{}
	for _, s := range e.slices {
		if s.v6 != v6 || len(s.ports) == 0 {
			continue
		}
		for i := range s.endpoints {
			if s.endpoints[i].has(ready | local) {
				found[s.endpoints[i].addr] = true
			}
		}
	}
	return len(found)
}

type setKey struct {
	port int
	v6   bool
}

// builder computes the frontends of one service.
type builder struct {
	tracker *Tracker
	entry   *entry
	state   *State
	sets    map[setKey]*backendSets
	refused bool // the problem about source ranges is among the state's
}

// add adds the frontend of a service port, unless another service has it or the service has it with a better
// precedence.
func (b *builder) add(key Key, precedence uint8, number int) {
	w, kind := b.entry.service, kinds[precedence]
	owner := b.tracker.index.owners[key]
	switch {
	case owner.entry != b.entry:
		b.problem(ReasonTaken, "%s %s belongs to service %s", kind, key, owner.entry.name)
		return
	case owner.precedence != precedence || int(owner.port) != number:
		return // the service has it in another way, with a better precedence
	}

	p := &w.ports[number]
	f := Frontend{Key: key, Kind: kind, Service: b.entry.name, PortName: p.name,
		Affinity: w.affinity != 0, AffinityTimeout: w.affinity, PreserveDestination: w.preserve}
	if kind == Ingress && !b.admit(&f) {
		return
	}

	sets := b.sets[setKey{number, key.IPv6}]
	if sets == nil {
		sets = b.entry.backends(p, key.IPv6, b.tracker.node)
		b.sets[setKey{number, key.IPv6}] = sets
	}

	switch kind {
	case ClusterIP:
		f.LocalOnly = w.internalLocal
	case ExternalIP:
		f.LocalOnly = w.externalLocal
	default: // upstream's proxy for Windows does the same, also not for external IPs
		f.LocalOnly = w.externalLocal || w.preserve
	}
	f.Backends = sets.cluster
	if f.LocalOnly {
		f.Backends = sets.local
		if kind != ClusterIP {
			f.InternalBackends = sets.cluster
		}
	}
	b.state.Frontends = append(b.state.Frontends, f)
}

// admit reports whether an ingress IP is served although its clients are to be limited by source ranges.
func (b *builder) admit(f *Frontend) bool {
	w := b.entry.service
	if len(w.ranges) == 0 || w.elsewhere || b.tracker.options.SourceRanges == Elsewhere {
		return true
	}
	ranges := w.rangesFor(f.IPv6)
	if len(ranges) == 0 {
		return true
	}
	if b.tracker.options.SourceRanges == Carry {
		f.SourceRanges = ranges
		return true
	}
	if !b.refused {
		b.refused = true
		b.problem(ReasonSourceRanges,
			"loadBalancerSourceRanges is not enforced on Windows: HNS has no filter on a load balancer's "+
				"address. Its ingress IPs are not served on this node rather than opened to everybody; if what is in front of the cluster "+
				"enforces the ranges, say so with the annotation %s=%s", SourceRangesAnnotation, Elsewhere)
	}
	return false
}

func (b *builder) problem(reason, format string, args ...any) {
	b.state.Problems = append(b.state.Problems, Problem{b.entry.name, reason, fmt.Sprintf(format, args...)})
}

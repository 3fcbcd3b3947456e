package kernel

import (
	"iter"
	"time"

	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// demand is what services want: their frontends as targets, and load balancers of ours that no service wants.
type demand struct {
	*report
	derive *deriver

	// complete: all services have arrived once.
	complete bool
	services map[string]*serviceDemand
	targets  map[service.Key]*target
	// contenders are the services that derive a frontend which another service has first.
	contenders map[service.Key]map[string]bool
	orphans    map[balance.GUID]*target
	// failing are the targets with a failure.
	failing map[*target]bool
}

// serviceDemand is one service.
type serviceDemand struct {
	state     service.State
	keys      []service.Key // the frontends that the service has
	triggered []time.Time   // changes of endpoints that are not programmed yet
	removed   bool
	reported  reported
}

// again returns what the service wants, without a change of its own.
func (s *serviceDemand) again() service.State {
	state := s.state
	state.Triggered = nil
	return state
}

func newDemand(r *report, d *deriver) *demand {
	return &demand{
		report: r, derive: d,
		services: map[string]*serviceDemand{}, targets: map[service.Key]*target{},
		contenders: map[service.Key]map[string]bool{}, orphans: map[balance.GUID]*target{}, failing: map[*target]bool{},
	}
}

// apply updates the targets to the frontends that the changed services want. If one service releases a frontend and
// another claims it in the same batch, the claimant gets it. It returns the targets to be planned; one may be there
// twice.
func (d *demand) apply(changed []service.State) (affected []*target) {
	for i := range changed {
		s := &changed[i]
		wants := d.services[s.Service]
		if wants == nil {
			wants = &serviceDemand{}
			d.services[s.Service] = wants
		}
		wants.triggered = append(wants.triggered, s.Triggered...)
		wants.state = *s
		wants.removed = s.Empty()

		for _, key := range wants.keys {
			if t := d.targets[key]; t != nil && t.service == s.Service {
				t.f = nil
				affected = append(affected, t)
			}
		}
		wants.keys = nil
		d.touch(s.Service)
	}

	for i := range changed {
		affected = d.claim(changed[i].Service, affected)
	}
	return affected
}

// claim makes a target for each frontend of a service, and appends those that the service gets.
func (d *demand) claim(name string, affected []*target) []*target {
	wants := d.services[name]
	d.derive.frontends(&wants.state, func(f *service.Frontend, derived bool) {
		t := d.targets[f.Key]
		if t == nil {
			t = &target{key: f.Key}
			t.owner = t
			d.targets[f.Key] = t
		}
		// a service asks for it, or another one derived it first
		if derived && t.f != nil && (!t.derived || t.service != name) {
			if d.contenders[f.Key] == nil {
				d.contenders[f.Key] = map[string]bool{}
			}
			d.contenders[f.Key][name] = true
			return
		}

		t.f, t.service, t.derived = f, name, derived
		if t.phase != queued { // the queue is ordered by rank
			t.rank = rank(wants.state.Rank)
		}
		wants.keys = append(wants.keys, f.Key)
		affected = append(affected, t)
	})
	return affected
}

// successors returns the services that derive what others have now released.
func (d *demand) successors(affected []*target) (states []service.State) {
	for _, t := range affected {
		if t.f != nil {
			continue
		}
		for name := range d.contenders[t.key] {
			if wants := d.services[name]; wants != nil {
				states = append(states, wants.again())
			}
		}
		delete(d.contenders, t.key)
	}
	return states
}

// states returns what all services want.
func (d *demand) states() []service.State {
	states := make([]service.State, 0, len(d.services))
	for _, wants := range d.services {
		states = append(states, wants.again())
	}
	return states
}

// wants reports whether a frontend has a target. It has one until HNS has nothing at its key, even if no service wants
// it.
func (d *demand) wants(key service.Key) bool { return d.targets[key] != nil }

// countServed counts the wanted frontends of load balancers.
func (d *demand) countServed(balancers []*balance.Balancer) (n int) {
	for _, b := range balancers {
		for _, key := range b.Keys() {
			if t := d.targets[key]; t != nil && t.f != nil {
				n++
			}
		}
	}
	return n
}

// unserved yields the frontends that may lack endpoints: those that are not as wanted, or all of them.
func (d *demand) unserved(all bool) iter.Seq[*service.Frontend] {
	return func(yield func(*service.Frontend) bool) {
		for _, t := range d.targets {
			if t.f != nil && (all || !t.done) && !yield(t.f) {
				return
			}
		}
	}
}

// addOrphan makes a target of a load balancer that no service wants. It returns nil if it is a target already.
func (d *demand) addOrphan(b *balance.Balancer) *target {
	if d.orphans[b.ID] != nil {
		return nil
	}

	t := &target{orphan: b.ID}
	t.owner = t
	t.rank = rankCleanup
	if keys := b.Keys(); len(keys) > 0 {
		t.key = keys[0]
	}
	d.orphans[b.ID] = t
	return t
}

// has reports whether t is still a target. It is not if it was dropped and its key may be another target's by now.
func (d *demand) has(t *target) bool {
	if t.isOrphan() {
		return d.orphans[t.orphan] == t
	}
	return d.targets[t.key] == t
}

// drop removes a target that no service wants and of which HNS has nothing. It keeps one that is wanted.
func (d *demand) drop(t *target) {
	switch {
	case t.isOrphan():
		delete(d.orphans, t.orphan)
	case t.f == nil:
		delete(d.targets, t.key)
		delete(d.derive.facts.AccessRefused, t.key)
		d.setCounted(t, "")
		d.touch(t.service)
	}
}

// setFailure notes why a target is not as wanted.
func (d *demand) setFailure(t *target, why *failure) {
	t.failure = why
	d.failing[t] = true
	d.setState(t, false)
	d.touch(t.service)
}

// clearFailure ends a run of failures.
func (d *demand) clearFailure(t *target) {
	if t.failure != nil {
		t.failure = nil
		delete(d.failing, t)
		d.touch(t.service)
	}
}

// setState derives the reported state of a target. done says that HNS is as wanted.
func (d *demand) setState(t *target, done bool) {
	state := health.Pending
	switch {
	case t.f == nil || len(t.f.Backends) == 0 || t.isOrphan():
		state = ""
	case t.failure != nil:
		state = health.Failed
	case done:
		state = health.Programmed
	}

	if t.done != done || t.state != state {
		t.done = done
		d.touch(t.service)
		d.setCounted(t, state)
	}
}

// noteInFlight adds the load balancers that a call is changing right now.
func (d *demand) noteInFlight(index *balance.Index, busy map[balance.GUID]bool) {
	note := func(t *target) {
		if !t.phase.inFlight() {
			return
		}
		id, _ := balance.ParseGUID(balance.LoadBalancerID(t.key))
		busy[id], busy[t.orphan] = true, true
		if b := index.Serving(t.key); b != nil {
			busy[b.ID] = true
		}
	}
	for _, t := range d.targets {
		note(t)
	}
	for _, t := range d.orphans {
		note(t)
	}
}

// giveBack frees the memory of a map that is empty now: it keeps room for the most that it ever held.
func (d *demand) giveBack() { d.failing = freshIfEmpty(d.failing) }

func freshIfEmpty[K comparable, V any](m map[K]V) map[K]V {
	if len(m) > 0 {
		return m
	}
	return map[K]V{}
}

package kernel

import (
	"cmp"
	"iter"
	"slices"

	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// targets owns the targets. What is wanted of one, whether it failed and whether it is done change here only, so that
// the failing ones, the tally of the report and the services with a new status always agree with the targets. What
// concerns the work on one target alone changes by the target's own methods (target.go).
type targets struct {
	report *report

	byKey   map[service.Key]*target
	orphans map[balance.GUID]*target
	// failing are the targets with a failure.
	failing map[*target]bool
}

func newTargets(r *report) *targets {
	return &targets{report: r, byKey: map[service.Key]*target{}, orphans: map[balance.GUID]*target{},
		failing: map[*target]bool{}}
}

// at returns the target of a frontend; nil: it has none.
func (ts *targets) at(key service.Key) *target { return ts.byKey[key] }

// has reports whether t is still a target. It is not if it was dropped and its key may be another target's by now.
func (ts *targets) has(t *target) bool {
	if t.isOrphan() {
		return ts.orphans[t.orphan] == t
	}
	return ts.byKey[t.key] == t
}

// release has a service want its frontend no longer. It returns nil if the frontend is not that service's.
func (ts *targets) release(key service.Key, by string) *target {
	t := ts.byKey[key]
	if t == nil || t.service != by {
		return nil
	}
	t.f = nil
	return t
}

// claim has a service want a frontend, and makes its target if there is none. It returns nil if the frontend is derived
// and another service has it: one that asks for it, or that derived it first.
func (ts *targets) claim(f *service.Frontend, by string, derived bool, r rank) *target {
	t := ts.byKey[f.Key]
	if t == nil {
		t = &target{key: f.Key}
		t.owner = t
		ts.byKey[f.Key] = t
	}
	if derived && t.f != nil && (!t.derived || t.service != by) {
		return nil
	}

	if t.derived != derived { // only frontends that a service asks for are counted
		state := t.state
		ts.report.setCounted(t, "")
		t.derived = derived
		ts.report.setCounted(t, state)
	}
	t.f, t.service = f, by
	if t.phase != queued { // the queue is ordered by rank
		t.rank = r
	}
	return t
}

// addOrphan makes a target of a load balancer that no service wants. It returns nil if it is a target already.
func (ts *targets) addOrphan(b *balance.Balancer) *target {
	if ts.orphans[b.ID] != nil {
		return nil
	}

	t := &target{orphan: b.ID}
	t.owner = t
	t.rank = rankCleanup
	if keys := b.Keys(); len(keys) > 0 {
		t.key = keys[0]
	}
	ts.orphans[b.ID] = t
	return t
}

// drop forgets a target of which HNS has nothing, unless a service wants it. It returns true if it forgot a frontend.
func (ts *targets) drop(t *target) bool {
	switch {
	case t.isOrphan():
		delete(ts.orphans, t.orphan)
		return false
	case t.f != nil:
		return false
	}

	delete(ts.byKey, t.key)
	ts.report.setCounted(t, "")
	ts.report.touch(t.service)
	return true
}

// fail notes why a target is not as wanted.
func (ts *targets) fail(t *target, why *failure) {
	t.failure = why
	ts.failing[t] = true
	ts.setDone(t, false)
	ts.report.touch(t.service)
}

// succeed ends a run of failures.
func (ts *targets) succeed(t *target) {
	if t.failure != nil {
		t.failure = nil
		delete(ts.failing, t)
		ts.report.touch(t.service)
	}
}

// setDone notes whether HNS has a target as wanted, and derives the state that is reported.
func (ts *targets) setDone(t *target, done bool) {
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
		ts.report.touch(t.service)
		ts.report.setCounted(t, state)
	}
}

// setLimits notes what of a target's frontend HNS cannot serve.
func (ts *targets) setLimits(t *target, limits []service.Problem) {
	if !slices.Equal(t.limits, limits) {
		t.limits = limits
		ts.report.touch(t.service)
	}
}

// wants reports whether a frontend has a target. It has one until HNS has nothing at its key, even if no service wants
// it.
func (ts *targets) wants(key service.Key) bool { return ts.byKey[key] != nil }

// wanted returns the frontends in the order in which they are programmed, and those that are released.
func (ts *targets) wanted() (all balance.Wanted) {
	var list []*target
	for key, t := range ts.byKey {
		if t.f != nil {
			list = append(list, t)
		} else {
			all.Released = append(all.Released, key)
		}
	}

	slices.SortFunc(list, func(a, b *target) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.f.Service, b.f.Service),
			cmp.Compare(a.f.Key.String(), b.f.Key.String()))
	})
	slices.SortFunc(all.Released, func(a, b service.Key) int { return cmp.Compare(a.String(), b.String()) })
	for _, t := range list {
		all.Frontends = append(all.Frontends, *t.f)
	}
	return all
}

// countServed counts the wanted frontends of load balancers.
func (ts *targets) countServed(balancers []*balance.Balancer) (n int) {
	for _, b := range balancers {
		for _, key := range b.Keys() {
			if t := ts.byKey[key]; t != nil && t.f != nil {
				n++
			}
		}
	}
	return n
}

// unserved yields the frontends that may lack endpoints: those that are not as wanted, or all of them.
func (ts *targets) unserved(all bool) iter.Seq[*service.Frontend] {
	return func(yield func(*service.Frontend) bool) {
		for _, t := range ts.byKey {
			if t.f != nil && (all || !t.done) && !yield(t.f) {
				return
			}
		}
	}
}

// isAnyOf reports whether a service still has a frontend in HNS, or one that is being removed.
func (ts *targets) isAnyOf(service string) bool {
	for _, t := range ts.byKey { // services are removed rarely
		if t.service == service {
			return true
		}
	}
	return false
}

// noteInFlight adds the load balancers that a call is changing right now.
func (ts *targets) noteInFlight(index *balance.Index, busy map[balance.GUID]bool) {
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
	for _, t := range ts.byKey {
		note(t)
	}
	for _, t := range ts.orphans {
		note(t)
	}
}

// giveBack frees the memory of a map that is empty now: it keeps room for the most that it ever held.
func (ts *targets) giveBack() { ts.failing = freshIfEmpty(ts.failing) }

func freshIfEmpty[K comparable, V any](m map[K]V) map[K]V {
	if len(m) > 0 {
		return m
	}
	return map[K]V{}
}

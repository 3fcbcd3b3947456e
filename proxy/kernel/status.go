package kernel

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// tally counts frontends with backends by state, those of our own making apart.
type tally struct{ wanted, programmed, pending, failed int }

// passState is what happened since the last report.
type passState struct {
	active, full, ready bool
	started, told       time.Time
	writes              int
	failed              bool // a survey failed
	attempts            int  // surveys that failed one after the other
	doubted, notified   bool
	reminded            bool
}

// begin notes that there is work.
func (p *Proxy) begin() {
	if !p.passed.active {
		p.passed.active, p.passed.started = true, time.Now()
	}
}

func (p *Proxy) setCounted(t *target, state health.State) {
	if !t.optional {
		p.count(t.state, -1)
		p.count(state, 1)
	}
	t.state = state
}

func (p *Proxy) count(state health.State, n int) {
	switch state {
	case health.Programmed:
		p.tally.programmed += n
	case health.Pending:
		p.tally.pending += n
	case health.Failed:
		p.tally.failed += n
	default:
		return
	}
	p.tally.wanted += n
}

// conclude tells of services whose status changed, and ends a pass when nothing is left to do, or when it lasts.
func (p *Proxy) conclude() {
	if touched := p.touched; len(touched) > 0 {
		p.touched = map[string]bool{} // a map keeps the room of the most that it ever held, and to walk it takes as long
		for name := range touched {
			p.tell(name)
		}
	}
	quiet := p.running == 0 && p.survey == nil && (len(p.queue) == 0 || p.away != nil)
	const often = time.Second
	if !p.passed.active || !quiet && time.Since(later(p.passed.told, p.passed.started)) < often {
		if p.passed.active && !p.passed.reminded { // a pass that lasts tells of itself, also while a call hangs
			p.passed.reminded = true
			p.at(time.Now().Add(often), func() { p.passed.reminded = false })
		}
		return
	}
	if quiet && p.ready() && p.away == nil {
		p.passed.ready = true
	}
	now := time.Now()
	p.opts.Reporter.Pass(health.Pass{
		Started: p.passed.started, Observed: p.observed, Took: now.Sub(p.passed.started), Ready: p.passed.ready,
		Full: p.passed.full, Err: p.away, Writes: p.passed.writes,
		Wanted: p.tally.wanted, Programmed: p.tally.programmed, Failed: p.tally.failed, Pending: p.tally.pending,
	})
	if quiet && p.passed.full {
		p.slim()
	}
	p.passed.told, p.passed.writes, p.passed.full, p.passed.failed = now, 0, false, false
	p.passed.active = !quiet
}

// slim gives back the room of what is empty now: maps and queues keep that of the most that they ever held.
func (p *Proxy) slim() {
	p.troubled, p.supplies = roomless(p.troubled), roomless(p.supplies)
	if len(p.queue) == 0 {
		p.queue = nil
	}
}

func roomless[K comparable, V any](m map[K]V) map[K]V {
	if len(m) > 0 {
		return m
	}
	return map[K]V{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// tell reports one service if its status changed.
func (p *Proxy) tell(name string) {
	o := p.offers[name]
	if o == nil {
		return
	}
	if o.removed && p.left(name) {
		delete(p.offers, name)
		if o.told.state != "" {
			p.opts.Reporter.Service(health.ServiceStatus{Service: name, Removed: true})
		}
		return
	}
	s, done := p.status(name, o)
	if s.State == o.told.state {
		s.Since = o.told.since
	}
	if !o.told.same(&s) {
		o.told = toldOf(&s)
		p.opts.Reporter.Service(s)
	}
	if done && len(o.triggered) > 0 && p.ready() && p.away == nil {
		for _, t := range o.triggered {
			p.opts.Reporter.Programmed(t)
		}
		o.triggered = nil
	}
}

// left says that no frontend of a service is left in HNS or being dealt with.
func (p *Proxy) left(name string) bool {
	for _, t := range p.targets { // services go seldom
		if t.service == name {
			return false
		}
	}
	return true
}

// status adds up the targets of a service. Done says that all of it, refusals for want of backends included, is in HNS.
func (p *Proxy) status(name string, o *offer) (health.ServiceStatus, bool) {
	s := health.ServiceStatus{Service: name, State: health.Programmed, Since: time.Now()}
	s.Problems = slices.Clone(o.state.Problems)
	done := p.complete
	for _, key := range o.keys {
		t := p.targets[key]
		if t == nil || t.service != name {
			continue
		}
		if t.optional {
			if t.state == health.Failed && t.trouble.streak >= enduring {
				s.Problems = append(s.Problems, optionalProblem(name, t))
			}
			continue
		}
		done = done && t.done
		for _, l := range t.limits {
			s.Problems = append(s.Problems, service.Problem{Service: name, Reason: l.reason, Text: l.text})
		}
		if t.state != "" {
			s.Frontends++
		}
		switch t.state {
		case health.Programmed:
			s.Programmed++
		case health.Pending:
			if s.State == health.Programmed {
				s.State = health.Pending
			}
		case health.Failed:
			if s.State != health.Failed || t.trouble.failures > s.Failures {
				s.State, s.Reason, s.Message = health.Failed, t.trouble.reason, t.trouble.text
				s.Code, s.Failures = t.trouble.code, t.trouble.failures
			}
		}
	}
	return s, done
}

// optionalProblem says what a failed frontend of our own making means for the service.
func optionalProblem(name string, t *target) service.Problem {
	if t.f != nil && t.f.Kind == healthCheck {
		return service.Problem{Service: name, Reason: "HealthCheckForwarding",
			Text: "its load balancer address does not answer health checks on this node: " + t.trouble.text}
	}
	return service.Problem{Service: name, Reason: "NodePortFromNode",
		Text: "programs of this node do not reach the node port, others do: " + t.trouble.text}
}

// told is what was last said of a service; nothing yet where the state is "".
type told struct {
	state                 health.State
	since                 time.Time
	frontends, programmed int
	wrong                 *health.ServiceStatus // all of it, where something is wrong
}

func toldOf(s *health.ServiceStatus) told {
	t := told{state: s.State, since: s.Since, frontends: s.Frontends, programmed: s.Programmed}
	if !fine(s) {
		whole := *s
		t.wrong = &whole
	}
	return t
}

func fine(s *health.ServiceStatus) bool {
	return s.Reason == "" && s.Message == "" && s.Code == 0 && s.Failures == 0 && len(s.Problems) == 0
}

// same leaves the time aside.
func (t *told) same(s *health.ServiceStatus) bool {
	if t.state != s.State || t.frontends != s.Frontends || t.programmed != s.Programmed {
		return false
	}
	if t.wrong == nil {
		return fine(s)
	}
	w := t.wrong
	return w.Reason == s.Reason && w.Message == s.Message && w.Code == s.Code && w.Failures == s.Failures && slices.Equal(w.Problems, s.Problems)
}

type frontendOf struct {
	rank rank
	f    service.Frontend
}

// ordered gives frontends as they would be programmed.
func ordered(all []frontendOf) []service.Frontend {
	slices.SortFunc(all, func(a, b frontendOf) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.f.Service, b.f.Service), cmp.Compare(a.f.Key.String(), b.f.Key.String()))
	})
	out := make([]service.Frontend, 0, len(all))
	for _, w := range all {
		out = append(out, w.f)
	}
	return out
}

// list reads everything, for Diff.
func (p *Proxy) list(ctx context.Context, network hns.NetworkID) (Listed, error) {
	var l Listed
	host := p.opts.Host
	endpoints, err := host.EndpointIDs(ctx, network)
	if err != nil {
		return l, err
	}
	balancers, err := host.LoadBalancerIDs(ctx)
	if err != nil {
		return l, err
	}
	for _, id := range endpoints {
		e, err := host.Endpoint(ctx, id)
		if err == nil {
			l.Endpoints = append(l.Endpoints, e)
		} else if !hns.IsAbsent(err) {
			return l, fmt.Errorf("listing endpoints: %w", err)
		}
	}
	for _, id := range balancers {
		lb, err := host.LoadBalancer(ctx, id)
		if err == nil {
			l.LoadBalancers = append(l.LoadBalancers, lb)
		} else if !hns.IsAbsent(err) {
			return l, fmt.Errorf("listing load balancers: %w", err)
		}
	}
	return l, nil
}

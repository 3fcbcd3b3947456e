package kernel

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

func (p *Proxy) view() view { return view{x: p.x, facts: &p.facts, refused: p.refused} }

// refused says why an address has no endpoint, when that has been tried often enough.
func (p *Proxy) refused(addr netip.Addr) string {
	if s := p.supplies[addr]; s != nil && s.trouble != nil && s.trouble.streak >= enduring {
		return s.trouble.text
	}
	return ""
}

// consider plans a target: it is right, or has work to be queued, or cannot be helped now.
func (p *Proxy) consider(t *target) {
	switch {
	case !p.current(t):
		return // it is forgotten, and another may have its key by now
	case t.phase == running:
		t.again = true
		return
	case t.phase == queued || !p.ready():
		p.setState(t, false)
		return
	case t.trouble != nil && (t.trouble.survey || time.Now().Before(t.trouble.next)):
		return // an alarm, or the survey, brings it back
	case t.doubted:
		p.enqueue(&t.task)
		return
	}
	v := p.plan(t)
	p.conclusions(t, &v)
	if len(v.ops) > 0 {
		p.prepare(t, v.ops)
	}
}

func (p *Proxy) current(t *target) bool {
	if t.litter != (guid{}) {
		return p.litter[t.litter] == t
	}
	return p.targets[t.key] == t
}

func (p *Proxy) plan(t *target) verdict {
	if t.litter != (guid{}) {
		b := p.x.balancers[t.litter]
		if b == nil || slices.ContainsFunc(keysOf(b.doc), func(k service.Key) bool { return p.targets[k] != nil }) {
			return verdict{} // it is gone, or somebody wants the frontend by now
		}
		return verdict{ops: []Op{{Verb: DeleteLB, Old: hns.LoadBalancerID(t.litter.String()), Why: "it serves nothing"}}}
	}
	if t.f == nil {
		return p.view().gone(t.key)
	}
	v := p.view().frontend(t.f)
	if t.rewrite && v.right() && len(t.f.Backends) > 0 {
		return p.rewritten(t)
	}
	return v
}

// conclusions of a plan for the target's status.
func (p *Proxy) conclusions(t *target, v *verdict) {
	if !slices.Equal(t.limits, v.limits) {
		t.limits = v.limits
		p.touched[t.service] = true
	}
	switch {
	case v.right():
		t.applied = ""
		p.cleared(t)
		p.setState(t, true)
		p.unrelay(t)
		p.forget(t)
	case v.blocked.reason != "":
		// HNS may know the pod by now; what is taken or refused is looked at again after a survey.
		p.fail(t, v.blocked, nil)
		if v.missingLocal && t.trouble.failures <= 6 {
			p.startSurvey(false)
		}
	default:
		p.setState(t, false)
	}
}

// forget drops a target that nobody wants and of which HNS has nothing.
func (p *Proxy) forget(t *target) {
	switch {
	case t.litter != (guid{}):
		delete(p.litter, t.litter)
	case t.f == nil:
		delete(p.targets, t.key)
		p.setCounted(t, "")
		p.touched[t.service] = true
	}
}

// prepare queues a target, or what it must wait for.
func (p *Proxy) prepare(t *target, ops []Op) {
	t.blockers = 0
	for _, op := range ops {
		if op.Verb == CreateEndpoint && p.await(t, op.Addr) {
			t.blockers++
		}
	}
	if t.blockers > 0 {
		t.phase = waiting
		return
	}
	t.phase = idle
	p.enqueue(&t.task)
}

// await has an endpoint made for an address and notes who waits for it.
func (p *Proxy) await(t *target, addr netip.Addr) bool {
	s := p.supplies[addr]
	if s == nil {
		s = &supply{addr: addr}
		s.rank = t.rank
		s.run = func() bool { return p.supplyBegun(s) }
		p.supplies[addr] = s
		p.enqueue(&s.task)
	}
	if t.rank < s.rank {
		s.rank = t.rank
		heap.Init(&p.queue)
	}
	if !slices.Contains(s.waiters, t) {
		s.waiters = append(s.waiters, t)
	}
	return true
}

// begun runs a target that left the queue: it is planned again, since much may have happened.
func (p *Proxy) begun(t *target) bool {
	if !p.current(t) {
		return false
	}
	if t.doubted {
		p.reread(t)
		return true
	}
	v := p.plan(t)
	if len(v.ops) == 0 {
		p.conclusions(t, &v)
		return false
	}
	op := v.ops[len(v.ops)-1]
	if len(v.ops) > 1 || op.Verb == CreateEndpoint {
		p.prepare(t, v.ops)
		return true
	}
	if op.Why != "" && op.Why == t.applied {
		t.applied = ""
		p.fail(t, flaw{"NotAsAsked", fmt.Sprintf("%s: HNS accepted a change and has it otherwise (%s)", op.Key, op.Why)}, nil)
		return false
	}
	lb := op.LB
	for _, b := range op.Backends {
		lb.Endpoints = append(lb.Endpoints, hns.EndpointID(p.x.find(b).id.String()))
	}
	host := p.opts.Host
	call(p, &t.task, func(ctx context.Context) outcome { return write(ctx, host, op, lb) },
		func(o outcome) { p.written(t, op, o) })
	return true
}

// outcome of a write.
type outcome struct {
	err    error
	made   *hns.LoadBalancer
	gone   []hns.LoadBalancerID
	writes int
	// lied: HNS said yes to a modification and did not do it.
	lied bool
}

// write does one operation on a load balancer. Modify believes only what it reads back: HNS may say yes and do nothing, or
// know the id no more. Replace is back to back, so that nothing comes between.
func write(ctx context.Context, host host, op Op, lb hns.LoadBalancer) (o outcome) {
	remove := func() bool {
		if o.err = host.DeleteLoadBalancer(ctx, op.Old); o.err == nil {
			o.gone = append(o.gone, op.Old)
			o.writes++
		}
		return o.err == nil
	}
	create := func() {
		made, err := host.CreateLoadBalancer(ctx, lb)
		if o.err = err; err == nil {
			o.made = &made
			o.writes++
		}
	}
	switch op.Verb {
	case DeleteLB:
		remove()
	case CreateLB:
		create()
	case ReplaceLB:
		if remove() {
			create()
		}
	case ModifyLB:
		now, err := host.ModifyLoadBalancer(ctx, lb)
		class := hns.ClassOf(err)
		switch {
		case err == nil && sameEndpoints(now, lb):
			o.made = &now
			o.writes++
		case class == hns.Absent:
			o.gone = append(o.gone, op.Old)
			create()
		case err == nil || class == hns.Unsupported:
			o.lied = true
			if remove() {
				create()
			}
		default:
			o.err = err
		}
	}
	return o
}

func sameEndpoints(a, b hns.LoadBalancer) bool {
	x, y := slices.Clone(a.Endpoints), slices.Clone(b.Endpoints)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y) && slices.Equal(a.Ports, b.Ports)
}

// written takes the outcome of a write.
func (p *Proxy) written(t *target, op Op, o outcome) {
	for _, id := range o.gone {
		p.dropBalancer(id)
	}
	defer p.bereaved(t)
	if o.made != nil {
		p.putBalancer(*o.made)
	}
	p.passed.writes += o.writes
	if o.lied && !p.facts.ModifyLies {
		p.facts.ModifyLies = true
		p.logger.Info("HNS does not do what it is asked when a load balancer is modified; they are replaced instead", "hns", p.facts.Version)
	}
	p.heard(o.err)
	again := t.again
	t.again = false
	if o.err == nil {
		if log := p.logger.V(4); log.Enabled() {
			log.Info("Applied", "operation", op.String())
		}
		t.applied, t.rewrite = op.Why, false
		if again {
			t.applied = ""
		}
		p.sweepDue = true
		p.cleared(t)
		p.consider(t)
		return
	}
	p.logger.V(2).Info("Operation failed", "operation", op.String(), "err", o.err)
	p.failed(t, o.err)
	if again && t.trouble.class != hns.Unknown {
		t.trouble.next = time.Time{}
		p.consider(t)
	}
}

// bereaved has another target considered whose load balancer this one took away: of litter that was wanted meanwhile.
func (p *Proxy) bereaved(t *target) {
	if other := p.targets[t.key]; other != nil && other != t {
		p.consider(other)
	}
}

// reread asks HNS what became of a write that it did not answer.
func (p *Proxy) reread(t *target) {
	ids := []hns.LoadBalancerID{lbID(t.key)}
	if b := p.view().holder(t.key); b != nil && b.id.String() != string(ids[0]) {
		ids = append(ids, hns.LoadBalancerID(b.id.String()))
	}
	if t.litter != (guid{}) {
		ids = []hns.LoadBalancerID{hns.LoadBalancerID(t.litter.String())}
	}
	type found struct {
		docs []hns.LoadBalancer
		gone []hns.LoadBalancerID
		err  error
	}
	host := p.opts.Host
	call(p, &t.task, func(ctx context.Context) (f found) {
		for _, id := range ids {
			lb, err := host.LoadBalancer(ctx, id)
			switch {
			case err == nil:
				f.docs = append(f.docs, lb)
			case hns.IsAbsent(err):
				f.gone = append(f.gone, id)
			default:
				f.err = err
			}
		}
		return f
	}, func(f found) {
		for _, id := range f.gone {
			p.dropBalancer(id)
		}
		for _, lb := range f.docs {
			p.putBalancer(lb)
		}
		p.heard(f.err)
		if f.err != nil {
			p.failed(t, f.err)
			return
		}
		t.doubted, t.again = false, false
		p.consider(t)
	})
}

func (p *Proxy) dropBalancer(id hns.LoadBalancerID) {
	if g, ok := guidOf(id); ok {
		p.noteTouched(g)
		p.x.dropBalancer(g)
	}
}

func (p *Proxy) putBalancer(lb hns.LoadBalancer) {
	if b, ok := compactBalancer(lb); ok {
		p.noteTouched(b.id)
		p.x.putBalancer(b)
	}
}

// failed takes an error of HNS: its class decides what must be known before the next attempt.
func (p *Proxy) failed(t *target, err error) {
	reason := "HNSFailed"
	survey := false
	switch hns.ClassOf(err) {
	case hns.Unknown:
		t.doubted = true
	case hns.Exists:
		// Somebody holds the frontend: HNS is listed again, which finds the holder.
		reason, survey = "FrontendExists", true
	case hns.Absent:
		// An endpoint, or the network, is gone.
		survey = true
	case hns.Invalid:
		reason = "Refused"
		survey = true
	case hns.Unsupported:
		reason = "Unsupported"
	}
	first := t.trouble == nil || t.trouble.reason != reason
	survey = survey && (first || !t.optional)
	p.fail(t, flaw{reason, fmt.Sprintf("%s: %v", t.key, err)}, err)
	if survey && first {
		t.trouble.survey = true
		p.startSurvey(false)
	} else if survey {
		p.startSurvey(hns.ClassOf(err) == hns.Exists)
	}
}

// fail notes why a target is not as wanted, and when it is tried again.
func (p *Proxy) fail(t *target, f flaw, err error) {
	next := p.worse(t.trouble, f, err)
	if t.optional && next.streak >= enduring {
		next.next = next.next.Add(10 * p.opts.RetryMax) // a program of the host has the port: it will not go soon
	}
	t.trouble = next
	p.troubled[t] = true
	p.setState(t, false)
	p.touched[t.service] = true
	p.at(next.next, func() {
		if t.trouble == next && !next.survey {
			p.consider(t)
		}
	})
}

// worse continues a run of failures.
func (p *Proxy) worse(old *trouble, f flaw, err error) *trouble {
	now := time.Now()
	next := &trouble{flaw: f, class: hns.ClassOf(err), since: now, failures: 1, streak: 1}
	var e *hns.Error
	if errors.As(err, &e) {
		next.code = e.Code
	}
	if old != nil {
		next.since, next.streak = old.since, old.streak+1
		if old.reason == f.reason && old.code == next.code {
			next.failures = old.failures + 1
		}
	}
	next.next = now.Add(backoff(p.opts.RetryMin, p.opts.RetryMax, next.streak))
	return next
}

func backoff(least, most time.Duration, attempt int) time.Duration {
	if attempt > 16 {
		return most
	}
	return min(least<<(attempt-1), most)
}

func (p *Proxy) cleared(t *target) {
	if t.trouble != nil {
		t.trouble = nil
		delete(p.troubled, t)
		p.touched[t.service] = true
	}
}

// setState derives the status of a target.
func (p *Proxy) setState(t *target, done bool) {
	state := health.Pending
	switch {
	case t.f == nil || len(t.f.Backends) == 0 || t.litter != (guid{}):
		state = ""
	case t.trouble != nil:
		state = health.Failed
	case done:
		state = health.Programmed
	}
	if t.done != done || t.state != state {
		t.done = done
		p.touched[t.service] = true
		p.setCounted(t, state)
	}
}

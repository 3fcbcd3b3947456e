package kernel

import (
	"context"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

// consider plans a target: it is right, or has work to be queued, or must wait.
func (p *Proxy) consider(t *target) {
	switch {
	case !p.targets.has(t):
		return
	case t.take(change):
		return // a call is in flight, and its answer brings the target back
	case t.phase == queued || !p.ready():
		p.targets.setDone(t, false)
		return
	case !t.mayBeTried():
		return // an alarm, or the full check, brings it back
	case t.doubted:
		p.work.enqueue(&t.task)
		return
	case p.access.awaits(t):
		p.targets.setDone(t, false)
		return // access.follow considers it again when its frontend is as wanted
	}

	plan := p.planTarget(t)
	p.conclude(t, &plan)
	if len(plan.Ops) > 0 {
		p.prepare(t, plan.Ops)
	}
}

// planTarget plans the one target: an orphan, a frontend that is no longer wanted, or a frontend. It plans anew each
// time and keeps nothing of earlier plans, except that a target marked recreate is made anew once even though HNS has
// the right document.
func (p *Proxy) planTarget(t *target) balance.Plan {
	switch {
	case t.isOrphan():
		return p.planner.Orphan(t.orphan, p.targets.wants)
	case t.f == nil:
		return p.planner.Released(t.key)
	}

	plan := p.planner.Frontend(t.f)
	p.renewal.renew(&plan, t.f, p.planner)
	if t.recreate && plan.Right() && len(t.f.Backends) > 0 {
		plan = p.planner.Recreate(t.key)
		t.recreate = !plan.Right()
	}
	return plan
}

// conclude takes over what a plan says about the target's status.
func (p *Proxy) conclude(t *target, plan *balance.Plan) {
	p.targets.setLimits(t, plan.Limits)

	switch {
	case plan.Right():
		t.applied = ""
		p.targets.succeed(t)
		wasDone := t.done
		p.targets.setDone(t, true)
		if !wasDone {
			p.access.follow(t)
		}
		p.derive.releaseRelay(t)
		if p.targets.drop(t) {
			delete(p.known.facts.AccessRefused, t.key)
		}
	case plan.Blocked.Reason != "":
		// HNS may know the pod by now. What is taken or refused is planned again after a full check.
		p.fail(t, plan.Blocked, nil)
		if len(plan.Ops) > 0 {
			t.tryNow() // what can be done does not wait for what is blocked
		}
		if plan.MissingLocal && t.failure.failures <= 6 {
			p.checks.start(false)
		}
	default:
		p.targets.setDone(t, false)
	}
}

// prepare queues a target, or the endpoints that it must wait for.
func (p *Proxy) prepare(t *target, ops []balance.Op) {
	missing := 0
	for _, op := range ops {
		if op.Verb == balance.CreateEndpoint {
			p.endpoints.await(t, op.Addr)
			missing++
		}
	}

	t.waitFor(missing)
	if missing == 0 {
		p.work.enqueue(&t.task)
	}
}

// runTarget runs a target that left the queue. It is planned again, since much may have happened meanwhile.
func (p *Proxy) runTarget(t *target) {
	if !p.targets.has(t) {
		return
	}
	if t.doubted {
		p.reread(t)
		return
	}
	if p.access.awaits(t) {
		p.targets.setDone(t, false)
		return
	}
	plan := p.planTarget(t)
	if len(plan.Ops) == 0 {
		p.conclude(t, &plan)
		return
	}
	op := plan.Ops[len(plan.Ops)-1]
	if len(plan.Ops) > 1 || op.Verb == balance.CreateEndpoint {
		p.prepare(t, plan.Ops)
		return
	}
	if t.repeats(op.Why) {
		p.fail(t, problemOf(t, "NotAsAsked", "HNS accepted a change and has it otherwise ("+op.Why+")"), nil)
		return
	}

	lb := op.LB
	for _, b := range op.Backends {
		lb.Endpoints = append(lb.Endpoints, hns.EndpointID(p.known.index.Find(b).ID.String()))
	}
	host := p.balancers
	call(p.work, &t.task, func(ctx context.Context) outcome { return write(ctx, host, op, lb) },
		func(o outcome, outdated bool) { p.written(t, op, o, outdated) })
}

// written takes in the outcome of a write. outdated says that what is wanted changed meanwhile.
func (p *Proxy) written(t *target, op balance.Op, o outcome, outdated bool) {
	for _, id := range o.gone {
		p.known.dropBalancer(id)
	}
	p.renewal.replaced(o.gone)
	defer p.reconsiderSuccessor(t)
	if o.made != nil {
		p.known.putBalancer(*o.made)
	}
	p.report.writes += o.writes
	if o.lied && !p.known.facts.ModifyLies {
		p.known.facts.ModifyLies = true
		p.logger.Info("HNS does not carry out modifications of load balancers; they are replaced instead", "hns",
			p.known.facts.Version)
	}
	p.checks.noteAnswer(o.err)

	if o.err == nil {
		if log := p.logger.V(4); log.Enabled() {
			log.Info("Applied", "operation", op.String())
		}
		t.written(op.Why, outdated)
		p.endpoints.sweepDue = true
		p.targets.succeed(t)
		p.consider(t)
		return
	}

	p.logger.V(2).Info("Operation failed", "operation", op.String(), "err", o.err)
	if p.access.giveUp(t, o.err) {
		return
	}
	p.failWith(t, o.err)
	if outdated && t.failure.class != hns.Unknown {
		t.tryNow()
		p.consider(t)
	}
}

// reconsiderSuccessor plans the target that owns t's key now, if that is another one: t was an orphan whose frontend
// has become wanted, and its load balancer has just been deleted.
func (p *Proxy) reconsiderSuccessor(t *target) {
	if other := p.targets.at(t.key); other != nil && other != t {
		p.consider(other)
	}
}

// reread asks HNS what became of a write that it did not answer.
func (p *Proxy) reread(t *target) {
	ids := []hns.LoadBalancerID{balance.LoadBalancerID(t.key)}
	if b := p.known.index.Holder(t.key); b != nil && b.ID.String() != string(ids[0]) {
		ids = append(ids, hns.LoadBalancerID(b.ID.String()))
	}
	if t.isOrphan() {
		ids = []hns.LoadBalancerID{hns.LoadBalancerID(t.orphan.String())}
	}

	documents := p.documents
	call(p.work, &t.task, func(ctx context.Context) documentsFound { return readBalancers(ctx, documents, ids) },
		func(found documentsFound, _ bool) {
			for _, id := range found.gone {
				p.known.dropBalancer(id)
			}
			for _, lb := range found.documents {
				p.known.putBalancer(lb)
			}
			p.checks.noteAnswer(found.err)
			if found.err != nil {
				p.failWith(t, found.err)
				return
			}
			t.doubted = false
			p.consider(t)
		})
}

// failWith takes in an error of HNS. Its class decides what must be known before the next attempt.
func (p *Proxy) failWith(t *target, err error) {
	reason, check := "HNSFailed", false
	switch hns.ClassOf(err) {
	case hns.Unknown:
		t.doubt()
	case hns.Exists:
		// Another load balancer has the frontend. HNS is listed again, which finds it.
		reason, check = "FrontendExists", true
	case hns.Absent:
		// An endpoint, or the network, is gone.
		check = true
	case hns.Invalid:
		reason, check = "Refused", true
	case hns.Unsupported:
		reason = "Unsupported"
	}

	first := t.failure == nil || t.failure.Reason != reason
	check = check && (first || !t.derived)
	p.fail(t, problemOf(t, reason, err.Error()), err)
	switch {
	case check && first:
		t.failure.needsFullCheck = true
		p.checks.start(false)
	case check:
		p.checks.start(hns.ClassOf(err) == hns.Exists)
	}
}

// fail notes why a target is not as wanted, and sets the alarm for the next attempt. err may be nil.
func (p *Proxy) fail(t *target, why service.Problem, err error) {
	next := p.retries.after(t.failure, why, err)
	if t.derived && next.streak >= enduring {
		next.next = next.next.Add(10 * p.opts.RetryMax) // a program of the host has the port: that lasts
	}
	p.targets.fail(t, next)
	p.work.at(next.next, func() {
		if t.failure == next && !next.needsFullCheck {
			p.consider(t)
		}
	})
}

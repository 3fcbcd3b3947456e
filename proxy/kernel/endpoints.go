package kernel

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

// endpointJob is the endpoint of one address that is being created or deleted.
type endpointJob struct {
	task
	addr    netip.Addr
	remove  balance.GUID // the endpoint to delete; zero: one is created
	waiters []*target
	failure *failure
}

func (j *endpointJob) isRemoval() bool { return j.remove != balance.GUID{} }

// endpoints creates the endpoints that targets wait for and deletes those that nothing uses.
type endpoints struct {
	*session
	networks  networkReader
	documents documentReader
	writer    endpointWriter

	network   string // its name
	sourceVIP netip.Addr
	retries   retries
	planner   balance.Planner

	known   *known
	work    *work
	report  *report
	targets *targets
	loop    targetPlanner
	checks  *fullChecks

	jobs map[netip.Addr]*endpointJob

	// sweepDue: unused endpoints are to be looked for. A sweep is not before nextSweep; sweepAlarm says that an alarm
	// is set for it.
	sweepDue, sweepAlarm bool
	nextSweep            time.Time
}

// targetPlanner plans targets; Proxy does.
type targetPlanner interface {
	// consider plans one target.
	consider(*target)
	// planAll plans everything, unless nothing changed.
	planAll()
	fail(t *target, why service.Problem, err error)
}

// refused returns why an address has no endpoint if creating it has failed often enough, else "".
func (e *endpoints) refused(addr netip.Addr) string {
	if j := e.jobs[addr]; j != nil && j.failure != nil && j.failure.streak >= enduring {
		return j.failure.Text
	}
	return ""
}

// await has an endpoint created for an address and notes that a target waits for it.
func (e *endpoints) await(t *target, addr netip.Addr) {
	j := e.jobs[addr]
	if j == nil {
		j = &endpointJob{addr: addr}
		j.owner = j
		j.rank = t.rank
		e.jobs[addr] = j
		e.work.enqueue(&j.task)
	}
	e.work.promote(&j.task, t.rank)
	if !slices.Contains(j.waiters, t) {
		j.waiters = append(j.waiters, t)
	}
}

// run runs a job that left the queue.
func (e *endpoints) run(j *endpointJob) {
	if j.isRemoval() {
		e.delete(j)
		return
	}

	want, uncovered := balance.EndpointFor(j.addr, e.isClusterIP(j), &e.known.facts)
	if want.Remote && e.known.index.Remote(j.addr) != nil || !want.Remote && e.known.index.Local(j.addr) != nil {
		e.finish(j)
		return
	}
	var facts *balance.Facts
	if uncovered {
		copied := e.known.facts
		facts = &copied
	}
	call(e.work, &j.task, func(ctx context.Context) created { return e.create(ctx, j.addr, want, facts) },
		func(c created, _ bool) { e.created(j, c) })
}

func (e *endpoints) isClusterIP(j *endpointJob) bool {
	return e.known.facts.Overlay() && slices.ContainsFunc(j.waiters, func(t *target) bool {
		return t.f != nil && t.f.Kind == service.ClusterIP && t.f.VIP == j.addr
	})
}

// created is the outcome of creating an endpoint.
type created struct {
	endpoint hns.Endpoint
	network  *hns.Network // as read now, if it has a way to the address that was not known; else nil
	err      error
}

// create creates an endpoint. facts are nil if they have a way to the address. If they have none, a node may just have
// joined, and the network is read again; create changes them. It uses nothing of e that changes.
func (e *endpoints) create(ctx context.Context, addr netip.Addr, want hns.Endpoint, facts *balance.Facts) (c created) {
	if facts != nil {
		if facts.Network, c.err = e.networks.NetworkByName(ctx, e.network); c.err != nil {
			return c
		}
		if found, uncovered := balance.EndpointFor(addr, false, facts); !uncovered && facts.Network.ID == want.Network {
			want, c.network = found, &facts.Network
		}
	}

	c.endpoint, c.err = e.writer.CreateEndpoint(ctx, want)
	if hns.ClassOf(c.err) != hns.Exists {
		return c
	}
	// It is ours from an attempt that HNS did not answer. Anything else under our id is not what is needed.
	if old, err := e.documents.Endpoint(ctx, want.ID); err == nil && old.Has(addr) && old.Remote == want.Remote {
		c.endpoint, c.err = old, nil
	}
	return c
}

// created takes in the outcome of create.
func (e *endpoints) created(j *endpointJob, c created) {
	e.checks.noteAnswer(c.err)
	if c.err == nil && !c.endpoint.Has(j.addr) {
		c.err = fmt.Errorf("creating endpoint %s: HNS made one with %v instead", j.addr, c.endpoint.Addrs)
	}
	if c.err != nil {
		e.failed(j, c.err)
		return
	}

	e.report.writes++
	e.known.putEndpoint(c.endpoint)
	if c.network != nil && c.network.ID == e.known.facts.Network.ID {
		e.known.facts.Network = *c.network
		e.known.planned = 0
		e.loop.planAll()
	}
	e.finish(j)
}

// delete deletes an endpoint, unless it is wanted again or gone.
func (e *endpoints) delete(j *endpointJob) {
	if len(j.waiters) > 0 || e.known.index.Endpoint(j.remove) == nil {
		e.finish(j)
		return
	}

	id := hns.EndpointID(j.remove.String())
	call(e.work, &j.task, func(ctx context.Context) error { return e.writer.DeleteEndpoint(ctx, id) },
		func(err error, _ bool) {
			e.checks.noteAnswer(err)
			if err != nil {
				e.failed(j, err)
				return
			}
			e.report.writes++
			e.known.dropEndpoint(j.remove)
			e.finish(j)
		})
}

// finish ends a job that succeeded and plans the targets that waited for it, or went on without it.
func (e *endpoints) finish(j *endpointJob) {
	delete(e.jobs, j.addr)
	e.release(j)
	if j.failure == nil || j.failure.streak < enduring {
		return
	}
	for t := range e.targets.failing {
		if t.failure.Reason == balance.ReasonEndpointFailed {
			t.tryNow()
			e.loop.consider(t)
		}
	}
}

// release plans the targets that waited for a job and wait for no other.
func (e *endpoints) release(j *endpointJob) {
	waiters := j.waiters
	j.waiters = nil
	for _, t := range waiters {
		if t.endpointThere() {
			e.loop.consider(t)
		}
	}
}

// failed tries a job again soon. After enduring failures the targets go on without the endpoint.
func (e *endpoints) failed(j *endpointJob, err error) {
	e.logger.V(2).Info("Operation failed", "operation", "endpoint "+j.addr.String(), "err", err)
	j.failure = e.retries.after(j.failure, service.Problem{Reason: balance.ReasonEndpointFailed, Text: err.Error()},
		err)
	if hns.ClassOf(err) != hns.Unknown {
		// Another endpoint has the address, or the network is gone: HNS is listed.
		e.checks.start(false)
	}

	if j.failure.streak < enduring {
		j.failure.next = time.Now().Add(retry.Backoff{First: e.retries.First}.Wait(j.failure.streak) / 4)
	} else {
		if j.addr == e.known.facts.SourceVIP && j.failure.class == hns.Invalid {
			e.replaceSource()
		}
		for _, t := range j.waiters {
			e.loop.fail(t, problemOf(t, balance.ReasonEndpointFailed, err.Error()), err)
			t.tryNow()
		}
		e.release(j)
	}

	e.work.at(j.failure.next, func() {
		if e.jobs[j.addr] != j {
			return
		}
		if j.failure.streak >= enduring && len(j.waiters) == 0 && !e.needs(j) {
			delete(e.jobs, j.addr)
			return
		}
		e.work.enqueue(&j.task)
	})
}

// needs reports whether a failing job is still needed.
func (e *endpoints) needs(j *endpointJob) bool {
	if j.isRemoval() {
		return e.known.index.Endpoint(j.remove) != nil
	}
	for t := range e.targets.failing {
		if t.f != nil && (t.f.VIP == j.addr || j.addr == e.known.facts.SourceVIP ||
			slices.ContainsFunc(t.f.Backends, func(b service.Backend) bool { return b.Addr == j.addr })) {
			return true
		}
	}
	return false
}

// chooseSource sets the source address of an overlay network that has none yet. It takes the configured one, or that
// of the endpoint which the node agent made for the host, or a free one.
func (e *endpoints) chooseSource() {
	facts := &e.known.facts
	if !facts.Overlay() || facts.SourceVIP.IsValid() {
		return
	}
	if facts.SourceVIP = e.sourceVIP; facts.SourceVIP.IsValid() {
		return
	}

	for _, s := range facts.Network.Subnets {
		if s.Prefix.Addr().Is4() {
			var kept bool
			if facts.SourceVIP, kept = e.known.index.HostAddress(s); !kept {
				facts.SourceVIP, _ = e.known.index.FreeAddress(s, netip.Addr{})
			}
			return
		}
	}
}

// replaceSource chooses another source address for an overlay network, after HNS refused the first for long.
func (e *endpoints) replaceSource() {
	facts := &e.known.facts
	for _, s := range facts.Network.Subnets {
		if !s.Prefix.Addr().Is4() {
			continue
		}
		if addr, ok := e.known.index.FreeAddress(s, facts.SourceVIP); ok {
			e.logger.Info("HNS refuses the source address; another one is used", "refused", facts.SourceVIP, "chosen",
				addr)
			facts.SourceVIP = addr
			e.known.planned = 0
			e.loop.planAll()
			return
		}
	}
}

// sweep looks for endpoints of ours that nothing uses and queues their deletion. It walks over everything, so it is
// called when there is nothing else to do and maySweep allows it. frontends are those that may use endpoints without a
// load balancer.
func (e *endpoints) sweep(frontends iter.Seq[*service.Frontend]) {
	e.sweepDue = false
	started := time.Now()
	defer func() { e.nextSweep = time.Now().Add(20 * time.Since(started)) }()

	for _, unused := range e.planner.Unused(nil, frontends) {
		addr := unused.Addr
		if e.jobs[addr] != nil {
			continue // it is being created, or deleted already
		}
		if !addr.IsValid() { // an incomplete document: its id stands for an address
			addr = netip.AddrFrom16(unused.ID)
			if e.jobs[addr] != nil {
				continue
			}
		}
		j := &endpointJob{addr: addr, remove: unused.ID}
		j.owner = j
		j.rank = rankCleanup
		e.jobs[addr] = j
		e.work.enqueue(&j.task)
	}
}

// maySweep reports whether a sweep is due and allowed: sweeps take at most one part in twenty of the time. If it is
// due and not allowed yet, an alarm is set.
func (e *endpoints) maySweep() bool {
	if !e.sweepDue {
		return false
	}
	if time.Until(e.nextSweep) <= 0 {
		return true
	}
	if !e.sweepAlarm {
		e.sweepAlarm = true
		e.work.at(e.nextSweep, func() { e.sweepAlarm = false })
	}
	return false
}

// noteInFlight adds the endpoints that a call is changing right now.
func (e *endpoints) noteInFlight(busy map[balance.GUID]bool) {
	for _, j := range e.jobs {
		if j.phase.inFlight() {
			id, _ := balance.ParseGUID(balance.EndpointID(e.known.facts.Network.ID, j.addr))
			busy[id], busy[j.remove] = true, true
		}
	}
}

// forget drops all jobs: the network is another one.
func (e *endpoints) forget() { e.jobs = map[netip.Addr]*endpointJob{} }

// giveBack frees the memory of an empty map, which keeps room for the most that it ever held.
func (e *endpoints) giveBack() { e.jobs = freshIfEmpty(e.jobs) }

package kernel

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

// Proxy keeps HNS as the services want it. Make it with New and run it once. It consists of parts that have their own
// state and methods; the Proxy's own methods are the loop, what triggers it, and the life of a target (lifecycle.go).
type Proxy struct {
	*session
	opts      Options
	balancers balancerWriter
	documents documentReader
	retries   retries

	known     *known
	planner   balance.Planner
	demand    *demand
	targets   *targets
	derive    *deriver
	endpoints *endpoints
	checks    *fullChecks
	probing   *probing
	access    *access
	renewal   *renewal
	work      *work
	report    *report

	// asked has functions of other goroutines that the loop calls.
	asked chan func()
	// lastTake is when Take was called last; takeSet says that an alarm will call it.
	lastTake time.Time
	takeSet  bool
	// nodeAwaited: the node's addresses may still come, see nodePatience.
	nodeAwaited bool
}

// New makes a proxy. It calls nothing.
func New(opts Options) *Proxy {
	opts.setDefaults()
	s := &session{ctx: context.Background()}
	k := &known{index: balance.NewIndex()}
	r := &report{session: s, to: opts.Reporter, touched: map[string]bool{}}
	w := &work{session: s, report: r, answers: make(chan func()), minWriters: opts.Writers}
	d := &deriver{
		session: s, facts: &k.facts, relay: opts.Relay.Relay, relayed: map[service.Key]*service.Frontend{},
		forwardHealthChecks: opts.ForwardHealthChecks, healthPort: opts.HealthPort,
	}

	ts := newTargets(r)
	p := &Proxy{
		session: s, opts: opts, balancers: opts.Host.balancers, documents: opts.Host.documents, known: k, report: r,
		work: w, derive: d,
		demand: newDemand(r, d, ts), targets: ts, asked: make(chan func()),
		retries: retries{retry.Backoff{First: opts.RetryMin, Max: opts.RetryMax}},
	}
	p.checks = &fullChecks{
		session: s, known: k, work: w, report: r, period: opts.Period, readAll: opts.ReadAll, steps: make(chan step),
		outlines: map[*balance.Balancer]uint64{},
		lister: lister{networks: opts.Host.networks, ids: opts.Host.ids, documents: opts.Host.documents,
			network: opts.NetworkName, readers: opts.Readers},
	}
	p.endpoints = &endpoints{
		session: s, networks: opts.Host.networks, documents: opts.Host.documents, writer: opts.Host.endpoints,
		network: opts.NetworkName, sourceVIP: opts.SourceVIP,
		retries: p.retries, known: k, work: w, report: r, targets: ts, loop: p, checks: p.checks,
		jobs: map[netip.Addr]*endpointJob{},
	}
	p.planner = balance.Planner{Index: k.index, Facts: &k.facts, Refused: p.endpoints.refused}
	p.endpoints.planner = p.planner
	p.renewal = &renewal{session: s, known: k, complete: opts.Renewed}
	p.access = &access{session: s, known: k, demand: p.demand, targets: ts, report: r, consider: p.consider,
		apply: p.applyServices}
	p.probing = &probing{
		session: s, dial: opts.Dial, observe: opts.Probed, period: opts.Period, pause: opts.RetryMin, ready: p.ready,
		consider: p.consider,
		known:    k, demand: p.demand, targets: ts, work: w, report: r, reached: map[bool]bool{},
		history: map[service.Key]*probeHistory{},
	}
	return p
}

// Run keeps going until ctx ends. It leaves HNS as it is: services keep working without us.
func (p *Proxy) Run(ctx context.Context) error {
	p.ctx, p.logger = ctx, klog.FromContext(ctx)
	p.report.begin()
	p.awaitNode()
	p.take()
	p.checks.start(false)
	p.probing.schedule()

	timer := time.NewTimer(0)
	defer timer.Stop()
	notify := p.opts.Notify
	for {
		p.work.runDue()
		p.dispatch()
		p.reportProgress()

		timer.Reset(p.work.untilAlarm())
		select {
		case <-ctx.Done():
			return nil
		case <-p.opts.Changed:
			p.servicesChanged()
		case <-p.opts.NodeChanged:
			p.nodeChanged()
		case _, open := <-notify:
			if !open {
				notify = nil
				continue
			}
			p.checks.notified()
		case handle := <-p.work.answers:
			handle()
		case s := <-p.checks.steps:
			p.takeStep(&s)
		case answer := <-p.asked:
			answer()
		case <-timer.C:
		}
	}
}

// servicesChanged calls take at once if the last call is long enough ago, else as soon as it is. While HNS has a long
// queue anyway, changes gather for longer.
func (p *Proxy) servicesChanged() {
	settle := p.opts.Settle
	if len(p.work.queue) > 100 {
		settle *= 30
	}

	wait := settle - time.Since(p.lastTake)
	switch {
	case wait <= 0:
		p.take()
	case !p.takeSet:
		p.takeSet = true
		p.work.at(time.Now().Add(wait), func() { p.takeSet = false; p.take() })
	}
}

// take takes in the changed services.
func (p *Proxy) take() {
	changed, complete := p.opts.Take()
	p.lastTake = time.Now()
	p.report.begin()
	first := complete && !p.demand.complete
	p.demand.complete = complete
	p.applyServices(changed)
	if first {
		p.planAll()
	}
}

// applyServices updates the targets to what the changed services want, and plans those that it affects.
func (p *Proxy) applyServices(changed []service.State) {
	affected := p.demand.apply(changed)
	if successors := p.demand.successors(affected); len(successors) > 0 {
		p.applyServices(successors)
	}
	for _, t := range affected {
		t.tryNow() // what changed is tried at once
		p.consider(t)
	}
}

// rederive derives all frontends again, after facts changed that they are derived from.
func (p *Proxy) rederive() { p.applyServices(p.demand.states()) }

// ready reports whether plans may be made at all.
func (p *Proxy) ready() bool {
	return p.demand.complete && !p.known.observed.IsZero() && !p.nodeAwaited
}

// planAll plans every target and looks for what no service wants. If neither HNS nor the facts changed since it did so
// last, plans come out the same, and only failing targets are planned.
func (p *Proxy) planAll() {
	if !p.ready() {
		return
	}
	if p.known.planned == p.known.index.Generation()+1 {
		for t := range p.targets.failing {
			p.consider(t)
		}
		return
	}

	p.known.planned = p.known.index.Generation() + 1
	for _, t := range p.targets.byKey {
		p.consider(t)
	}
	p.sweepBalancers()
	p.endpoints.sweepDue = true
}

// sweepBalancers has the load balancers of ours deleted that no service wants.
func (p *Proxy) sweepBalancers() {
	for b := range p.planner.Orphans(p.targets.wants) {
		if t := p.targets.addOrphan(b); t != nil {
			p.consider(t)
		}
	}
}

// dispatch starts what is queued, in order, as far as HNS is there. When nothing is left, it looks for unused
// endpoints.
func (p *Proxy) dispatch() {
	if p.known.away != nil || !p.ready() {
		return
	}
	for p.work.running < p.work.writers(p.known.unanswered > 0) && p.known.away == nil {
		t := p.work.next()
		if t == nil {
			break
		}
		switch owner := t.owner.(type) {
		case *target:
			p.runTarget(owner)
		case *endpointJob:
			p.endpoints.run(owner)
		}
	}

	if !p.work.busy() && p.known.away == nil && p.endpoints.maySweep() {
		p.endpoints.sweep(p.targets.unserved(p.known.facts.Overlay()))
		if len(p.work.queue) > 0 {
			p.dispatch()
		}
	}
}

// takeStep takes in what a step of a full check found.
func (p *Proxy) takeStep(s *step) {
	if s.err != nil {
		p.checks.failed(s.err)
		return
	}
	if s.second {
		p.documentsRead(s)
		p.fullCheckEnded()
		return
	}
	if err := p.checks.checkEmpty(s, p.inFlight()); err != nil {
		p.checks.failed(err)
		return
	}

	p.updateFacts(s)
	busy := p.inFlight()
	unknown, lostEndpoints, lostBalancers := p.checks.match(s, busy)
	read := p.checks.toRead(s, unknown, busy)
	p.report.lost("endpoint", lostEndpoints)
	p.report.lost("load balancer", p.targets.countServed(lostBalancers))
	if read.empty() {
		p.fullCheckEnded()
		return
	}
	p.checks.step(func() step { return p.checks.lister.read(p.ctx, read) })
}

// documentsRead takes in the documents of a full check. Load balancers that another program altered are read once more
// before anything is done about them: HNS may have answered nonsense.
func (p *Proxy) documentsRead(s *step) {
	altered := p.checks.merge(s, p.inFlight())
	for _, old := range altered {
		for _, key := range old.Keys() {
			if t := p.targets.at(key); t != nil {
				t.doubt()
			}
		}
	}
	if n := len(altered); n > 0 {
		p.logger.Info("Load balancers differ from what we wrote", "count", n)
		p.opts.Reporter.Repaired("load balancer", n)
	}
}

// fullCheckEnded compares everything with what HNS has.
func (p *Proxy) fullCheckEnded() {
	last := p.checks.succeeded()
	podKnown := func(t *target) bool {
		plan := p.planTarget(t)
		return !plan.MissingLocal
	}
	for t := range p.targets.failing {
		t.fullCheckEnded(podKnown)
	}

	if p.derive.findHost(p.known.index) {
		p.rederive()
	}
	p.renewal.begin()
	p.planAll()
	p.checks.scheduleAfter(last)
}

// updateFacts takes over version and network, and derives again what depends on them.
func (p *Proxy) updateFacts(s *step) {
	facts := &p.known.facts
	old := *facts
	facts.Version, facts.Network = s.version, s.network
	facts.DSR = p.opts.EnableDSR
	facts.HostMAC = p.opts.HostMAC
	facts.NodeAccess = p.opts.NodeAccess
	facts.OverlayRelay = p.opts.Relay.Overlay
	if old.Version != s.version {
		facts.ModifyLies = false
	}
	var certain bool
	if facts.NodeAddrs, certain = p.opts.nodeAddrs(&s.network); certain {
		p.nodeAwaited = false
	}

	if old.Network.ID != s.network.ID {
		p.logger.Info("Using network", "network", s.network.Name, "id", s.network.ID, "hns", s.version)
		p.known.index.Reset()
		p.endpoints.forget()
		facts.SourceVIP = netip.Addr{}
		for _, t := range p.targets.byKey {
			t.take(resume)
		}
	}
	p.endpoints.chooseSource()
	if !slices.Equal(old.NodeAddrs, facts.NodeAddrs) {
		p.rederive()
	}

	if !sameFacts(&old, facts) {
		p.known.planned = 0
	}
}

// sameFacts compares what plans of unchanged frontends depend on and what a full check may change.
func sameFacts(a, b *balance.Facts) bool {
	return a.Version == b.Version && a.Network.ID == b.Network.ID && a.SourceVIP == b.SourceVIP &&
		a.ModifyLies == b.ModifyLies &&
		a.Network.Management == b.Network.Management &&
		slices.Equal(a.Network.RemoteSubnets, b.Network.RemoteSubnets) &&
		slices.Equal(a.Network.Subnets, b.Network.Subnets)
}

// inFlight returns the objects that a call is changing right now.
func (p *Proxy) inFlight() map[balance.GUID]bool {
	busy := map[balance.GUID]bool{}
	p.endpoints.noteInFlight(busy)
	if p.work.running > 0 {
		p.targets.noteInFlight(p.known.index, busy)
	}
	return busy
}

// reportProgress reports services whose status changed, and the pass if it ends or lasts.
func (p *Proxy) reportProgress() {
	settled := p.ready() && p.known.away == nil
	for name := range p.report.takeTouched() {
		p.demand.reportService(name, settled)
	}

	p.renewal.finish()
	quiet := p.work.running == 0 && p.checks.running == nil && (len(p.work.queue) == 0 || p.known.away != nil)
	if !p.report.due(quiet) {
		if p.report.active && !p.report.reminderSet {
			p.report.reminderSet = true
			p.work.at(time.Now().Add(reportInterval), func() { p.report.reminderSet = false })
		}
		return
	}

	if quiet && settled {
		p.report.ready = true
	}
	full := p.report.full
	p.report.pass(p.known, quiet)
	if quiet && full {
		p.targets.giveBack()
		p.endpoints.giveBack()
		p.work.giveBack()
	}
}

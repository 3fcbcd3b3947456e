package kernel

import (
	"container/heap"
	"context"
	"net/netip"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// Proxy keeps HNS as the services want it. Run it once. One goroutine, Run's, owns all of it; calls to HNS are made by
// others, which hold nothing and send back what HNS said.
type Proxy struct {
	opts   Options
	ctx    context.Context
	logger klog.Logger

	// x and facts are the last survey, kept current by our own writes.
	x     *index
	facts Facts
	// observed is when a survey last was complete (zero: never), away why the last one was not.
	observed   time.Time
	away       error
	suspicions int // calls in a row that HNS did not answer
	survey     *survey
	surveyed   chan surveyed
	rolling    []guid // what is to be read again, in turn
	// outlines are those that were found to belong to documents as we know them, where HNS tells others than we expect.
	outlines map[*balancer]uint64
	hostAddr netip.Addr // of the host's own endpoint
	// hostMissed: it was said that there is none.
	hostMissed bool
	relays     map[service.Key]*service.Frontend // those that the relay serves, as targets have them
	checked    uint64                            // x.changes+1 at the last look at everything; 0: look

	complete bool // all services have arrived once
	// nodeAwaited: the node's addresses may still come, see nodePatience.
	nodeAwaited bool
	offers      map[string]*offer
	second      map[service.Key]map[string]bool // services that would have what another one has first
	targets     map[service.Key]*target
	litter      map[guid]*target
	troubled    map[*target]bool
	supplies    map[netip.Addr]*supply
	// touched services may have a new status.
	touched map[string]bool

	queue   taskQueue
	alarms  alarms
	seq     uint64
	results chan func()
	asked   chan func()
	// running calls to HNS; urgent of them are for DNS and the API service, for which others wait until urgentUntil.
	running, urgent int
	urgentUntil     time.Time
	pace            pace
	lastTake        time.Time
	takeDue         bool
	sweepDue        bool
	sweepSet        bool
	nextSweep       time.Time

	tally  tally
	passed passState

	probing probing
}

// New makes a proxy; it calls nothing.
func New(opts Options) *Proxy {
	opts.defaults()
	return &Proxy{
		opts: opts, x: newIndex(),
		offers: map[string]*offer{}, second: map[service.Key]map[string]bool{}, targets: map[service.Key]*target{}, litter: map[guid]*target{},
		troubled: map[*target]bool{}, supplies: map[netip.Addr]*supply{}, touched: map[string]bool{},
		outlines: map[*balancer]uint64{}, relays: map[service.Key]*service.Frontend{}, probing: probing{reached: map[bool]bool{}, seen: map[service.Key]*probed{}},
		results: make(chan func()), asked: make(chan func()), surveyed: make(chan surveyed),
	}
}

// Run keeps going until ctx ends. It leaves HNS as it is: services keep working without us.
func (p *Proxy) Run(ctx context.Context) error {
	p.ctx, p.logger = ctx, klog.FromContext(ctx)
	p.begin()
	p.awaitNode()
	p.take()
	p.startSurvey(false)
	p.probeLater()
	timer := time.NewTimer(0)
	defer timer.Stop()
	notify := p.opts.Notify
	for {
		p.ring()
		p.dispatch()
		p.conclude()
		timer.Reset(p.nextAlarm())
		select {
		case <-ctx.Done():
			return nil
		case <-p.opts.Changed:
			p.changed()
		case <-p.opts.NodeChanged:
			p.nodeMoved()
		case _, open := <-notify:
			if !open {
				notify = nil
				continue
			}
			p.notified()
		case done := <-p.results:
			done()
		case s := <-p.surveyed:
			p.surveyDone(s)
		case ask := <-p.asked:
			ask()
		case <-timer.C:
		}
	}
}

// changed takes at once when the last look is long enough ago, else soon: while HNS has a long queue anyway, later.
func (p *Proxy) changed() {
	settle := p.opts.Settle
	if len(p.queue) > 100 {
		settle *= 30
	}
	wait := settle - time.Since(p.lastTake)
	switch {
	case wait <= 0:
		p.take()
	case !p.takeDue:
		p.takeDue = true
		p.at(time.Now().Add(wait), func() { p.takeDue = false; p.take() })
	}
}

// take has the changed services.
func (p *Proxy) take() {
	changed, complete := p.opts.Take()
	p.lastTake = time.Now()
	p.begin()
	first := complete && !p.complete
	p.complete = complete
	p.offer(changed)
	if first {
		p.everything()
	}
}

// offer puts what services ask into targets. A key that one service gave up and another took is the other's.
func (p *Proxy) offer(changed []service.State) {
	var affected []*target
	for i := range changed {
		s := &changed[i]
		o := p.offers[s.Service]
		if o == nil {
			o = &offer{}
			p.offers[s.Service] = o
		}
		o.triggered = append(o.triggered, s.Triggered...)
		o.state = *s
		o.removed = s.Empty()
		for _, key := range o.keys {
			if t := p.targets[key]; t != nil && t.service == s.Service {
				t.f = nil
				affected = append(affected, t)
			}
		}
		o.keys = nil
		p.touched[s.Service] = true
	}
	for i := range changed {
		affected = p.claim(changed[i].Service, affected)
	}
	if heirs := p.heirs(affected); len(heirs) > 0 {
		p.offer(heirs)
	}
	for _, t := range affected {
		if t.trouble != nil {
			t.trouble.next = time.Time{} // what changed is tried at once
		}
		p.consider(t)
	}
}

// claim makes a target for each frontend of a service.
func (p *Proxy) claim(name string, affected []*target) []*target {
	o := p.offers[name]
	put := func(f *service.Frontend, optional bool) {
		t := p.targets[f.Key]
		if t == nil {
			t = &target{key: f.Key}
			t.run = func() bool { return p.begun(t) }
			p.targets[f.Key] = t
		}
		if optional && t.f != nil && (!t.optional || t.service != name) { // somebody really wants it, or was first
			if p.second[f.Key] == nil {
				p.second[f.Key] = map[string]bool{}
			}
			p.second[f.Key][name] = true
			return
		}
		t.f, t.service, t.optional = f, name, optional
		if t.phase != queued { // a queue is ordered by it
			t.rank = rank(o.state.Rank)
		}
		o.keys = append(o.keys, f.Key)
		affected = append(affected, t)
	}
	for i := range o.state.Frontends {
		put(p.relayed(adapted(&o.state.Frontends[i])), false)
		derived := nodeAccessOf(&o.state.Frontends[i], &p.facts)
		for j := range derived {
			put(p.relayed(&derived[j]), true)
		}
	}
	checks := p.healthChecks(&o.state)
	for i := range checks {
		put(&checks[i], true)
	}
	return affected
}

// heirs are the services that wanted what others have now given up.
func (p *Proxy) heirs(affected []*target) (states []service.State) {
	for _, t := range affected {
		if t.f != nil {
			continue
		}
		for name := range p.second[t.key] {
			if o := p.offers[name]; o != nil {
				states = append(states, o.again())
			}
		}
		delete(p.second, t.key)
	}
	return states
}

// reoffer derives everything again, after facts that frontends are derived from changed.
func (p *Proxy) reoffer() {
	states := make([]service.State, 0, len(p.offers))
	for _, o := range p.offers {
		states = append(states, o.again())
	}
	p.offer(states)
}

// again is what a service asks, without a change of its own.
func (o *offer) again() service.State {
	s := o.state
	s.Triggered = nil
	return s
}

// everything considers all there is, after a survey.
func (p *Proxy) everything() {
	if !p.ready() {
		return
	}
	if p.checked == p.x.changes+1 {
		// Plans are pure: where nothing changed, only what is not right yet can come out otherwise.
		for t := range p.troubled {
			p.consider(t)
		}
		return
	}
	p.checked = p.x.changes + 1
	for _, t := range p.targets {
		p.consider(t)
	}
	p.sweepBalancers()
	p.sweepDue = true
}

// ready says whether plans may be made at all.
func (p *Proxy) ready() bool { return p.complete && !p.observed.IsZero() && !p.nodeAwaited }

// dispatch starts what is queued, in order, as far as HNS is there.
func (p *Proxy) dispatch() {
	for p.running < p.writers() && p.away == nil && p.ready() && len(p.queue) > 0 {
		next := p.queue[0]
		if !next.rank.urgent() && p.urgent > 0 && time.Now().Before(p.urgentUntil) {
			return // an alarm is set
		}
		heap.Pop(&p.queue)
		next.phase = idle
		next.run()
	}
	if p.sweepDue && len(p.queue) == 0 && p.running == 0 && p.away == nil && p.ready() && p.maySweep() {
		p.sweepDue = false
		p.sweepEndpoints()
		if len(p.queue) > 0 {
			p.dispatch()
		}
	}
}

// writers is how many calls may be in flight now.
func (p *Proxy) writers() int {
	if p.suspicions > 0 {
		return p.opts.Writers
	}
	return p.pace.writers(p.opts.Writers)
}

// maySweep: a sweep looks at everything, so it may take one part in twenty of the time at most.
func (p *Proxy) maySweep() bool {
	wait := time.Until(p.nextSweep)
	if wait > 0 && !p.sweepSet {
		p.sweepSet = true
		p.at(p.nextSweep, func() { p.sweepSet = false })
	}
	return wait <= 0
}

// urgentLimit is how long everything else waits for DNS and the API service: their three load balancers and a few endpoints
// take 3 s where HNS is slow (profile ws2019), and a call that hangs must not hold the others for long.
const urgentLimit = 10 * time.Second

// call has HNS asked by a goroutine of its own, and the answer given to the loop. Finish runs in the loop.
func call[T any](p *Proxy, t *task, ask func(context.Context) T, finish func(T)) {
	t.phase = running
	if p.running == 0 {
		p.pace = pace{}
	}
	p.running++
	p.begin()
	urgent := t.rank.urgent()
	if urgent {
		if p.urgent == 0 {
			p.urgentUntil = time.Now().Add(urgentLimit)
			p.at(p.urgentUntil, func() {})
		}
		p.urgent++
	}
	begun := time.Now()
	go func() {
		answer := ask(p.ctx)
		select {
		case p.results <- func() {
			p.running--
			p.pace.answered(begun, time.Now())
			if urgent {
				p.urgent--
			}
			t.phase = idle
			finish(answer)
		}:
		case <-p.ctx.Done():
		}
	}()
}

// heard notes whether HNS answers at all. After a few calls in a row without an answer nothing more is asked of it but
// whether it is there.
func (p *Proxy) heard(err error) {
	if hns.ClassOf(err) != hns.Unknown {
		p.suspicions = 0
		return
	}
	if p.suspicions++; p.suspicions >= 3 && p.away == nil {
		p.away = err
		p.startSurvey(false)
	}
}

// notified looks at HNS because it said that something changed; our own writes may be what it tells of.
func (p *Proxy) notified() {
	const least = time.Second
	if p.survey == nil && time.Since(p.observed) >= least {
		p.startSurvey(false)
		return
	}
	if !p.passed.notified {
		p.passed.notified = true
		p.at(time.Now().Add(least), func() {
			p.passed.notified = false
			p.startSurvey(false)
		})
	}
}

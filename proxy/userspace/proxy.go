package userspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/relay"
	"porthole.dev/porthole/proxy/service"
)

// Proxy keeps addresses and relay as the services want them. Make it with New and run it once.
type Proxy struct {
	opts   Options
	relay  *relay.Relay
	owned  *owned
	states map[string]service.State
	status statuses
	idle   map[netip.Addr]time.Time
	wake   wakeup.Signal

	// The latest observation of the host; stale says that it changed since.
	stale      atomic.Bool
	interfaces []string
	addrs      []platform.HostAddress
	observed   time.Time
	here       atomic.Pointer[map[netip.Addr]bool] // addrs as a set, which other goroutines read
	done       bool                                // one pass was complete
	triggered  []trigger
	primary    []netip.Prefix // the latest of Options.Primary
}

// trigger is a change of endpoints that is not served yet.
type trigger struct {
	service string
	at      time.Time
}

// New makes a proxy. It changes nothing on the host.
func New(opts Options) *Proxy {
	p := &Proxy{opts: opts.withDefaults(), states: map[string]service.State{}, status: statuses{},
		idle: map[netip.Addr]time.Time{}, wake: wakeup.New()}
	p.opts.Relay.Inside = p.inside
	p.opts.Relay.Ended = func(relay.Endpoint, error) { p.wake.Wake() }
	p.stale.Store(true)
	return p
}

// inside reports whether a client is inside the cluster as this node sees it: a pod, or the node itself.
func (p *Proxy) inside(client netip.Addr) bool {
	if here := p.here.Load(); here != nil && (*here)[client] {
		return true
	}
	return slices.ContainsFunc(p.opts.Cluster, func(r netip.Prefix) bool { return r.Contains(client) })
}

// Stats returns the relay's counters by frontend; nil before Run.
func (p *Proxy) Stats() map[string]relay.Stats {
	if p.relay == nil {
		return nil
	}
	return p.relay.Stats()
}

// Run serves until ctx ends, then closes every connection and removes its addresses from the host. It returns an error
// if it cannot start, or cannot remove them.
func (p *Proxy) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	var warning string
	var err error
	if p.owned, warning, err = loadOwned(p.opts.StateFile); err != nil {
		return err
	}
	if warning != "" {
		logger.Info("Some addresses are not ours any more", "warning", warning)
	}

	p.relay = relay.New(p.opts.Relay)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		if err := p.opts.Host.Watch(ctx, func() { p.stale.Store(true); p.wake.Wake() }); err != nil {
			logger.Error(err, "Changes of addresses are seen by the full check only", "period", p.opts.Period)
		}
	}()

	forwarding := make(chan struct{})
	go func() {
		defer close(forwarding)
		p.forward(ctx)
	}()

	loop.Loop{Pass: p.sync, Wake: p.wake, Settle: p.opts.Settle, Period: p.opts.Period,
		Retry: retry.Backoff{First: p.opts.RetryMin, Max: p.opts.RetryMax},
		Failed: func(ctx context.Context, err error, wait time.Duration) {
			klog.FromContext(ctx).Error(err, "Services are not as wanted; trying again", "after", wait)
		}}.Run(ctx)
	<-forwarding
	<-watching
	return p.shutDown()
}

// forward makes a pass come after each change of the services.
func (p *Proxy) forward(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.opts.Changed:
			p.wake.Wake()
		}
	}
}

// sync is one pass. It returns an error if something must be tried again.
func (p *Proxy) sync(ctx context.Context) error {
	started := time.Now()
	if !p.take() {
		return nil // Changed wakes us
	}
	full := p.stale.Swap(false) || time.Since(p.observed) >= p.opts.Period
	if full {
		if err := p.observe(); err != nil {
			p.stale.Store(true)
			p.report(health.Pass{Started: started, Observed: p.observed, Took: time.Since(started), Ready: p.done,
				Full: true, Err: err})
			return err
		}
	}

	wanted := p.wanted()
	nodePorts, unknown := p.nodePorts()
	plan := Plan(wanted, Observed{Interfaces: p.interfaces, Addresses: p.addrs, Owned: maps.Clone(p.owned.addrs),
		Idle: p.idle, Relay: p.relay.State()},
		Facts{Interface: p.opts.Interface, Reserved: p.opts.Reserved, NodePorts: nodePorts, Now: time.Now(),
			Linger: p.opts.Linger})
	p.idle = plan.Idle

	logger := klog.FromContext(ctx)
	if len(plan.Ops) > 0 {
		logger.V(2).Info("Applying plan", "operations", len(plan.Ops), "right", plan.Kept, "problems",
			len(plan.Problems))
	}
	w := walk{host: p.opts.Host, relay: p.relay, owned: p.owned, failed: map[service.Key]service.Problem{},
		addrs: map[netip.Addr]service.Problem{}}
	w.apply(ctx, plan.Ops)
	p.repaired(plan.Ops)

	failed := mergeProblems(wanted, plan.Problems, &w)
	changed := p.status.update(p.states, failed, time.Now())
	p.done = true
	p.tell(changed)
	pass := p.status.pass()
	pass.Started = started
	pass.Observed = p.observed
	pass.Took = time.Since(started)
	pass.Ready = true
	pass.Full = full
	pass.Writes = w.writes
	p.report(pass)
	p.forgetGone()

	if len(failed) == 0 && len(w.errs) == 0 && unknown == nil {
		return nil
	}
	p.stale.Store(true)
	return errors.Join(append(append(w.errs, unknown), describe(failed)...)...)
}

// nodePorts returns the ranges at which node ports are served. While primary addresses are not known, that is nowhere;
// known ones stay until there are others.
func (p *Proxy) nodePorts() ([]netip.Prefix, error) {
	if p.opts.Primary == nil {
		return p.opts.NodePorts, nil
	}
	addrs, err := p.opts.Primary()
	if err == nil {
		p.primary = nil
		for _, a := range addrs {
			p.primary = append(p.primary, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	if len(p.primary) == 0 {
		return []netip.Prefix{{}}, err // this prefix contains no address, whereas an empty list means every address
	}
	return p.primary, err
}

// take takes in what changed. It returns false until everything has arrived once.
func (p *Proxy) take() bool {
	changed, complete := p.opts.Take()
	for _, s := range changed {
		p.states[s.Service] = s
		for _, at := range s.Triggered {
			p.triggered = append(p.triggered, trigger{s.Service, at})
		}
	}
	return complete
}

// wanted lists the frontends in the order in which they are served.
func (p *Proxy) wanted() []service.Frontend {
	states := slices.SortedFunc(maps.Values(p.states), func(a, b service.State) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Service, b.Service))
	})
	var out []service.Frontend
	for _, s := range states {
		out = append(out, s.Frontends...)
	}
	return out
}

// observe lists the host's addresses. After an error they are unknown, which does not mean that there are none.
func (p *Proxy) observe() error {
	interfaces, addrs, err := p.opts.Host.List()
	if err != nil {
		return err
	}
	p.interfaces = interfaces
	p.addrs = addrs
	p.observed = time.Now()
	here := map[netip.Addr]bool{}
	for _, a := range addrs {
		here[a.Addr] = true
	}
	p.here.Store(&here)
	return nil
}

// mergeProblems returns what is wrong with each frontend. A frontend whose address could not be added is among them
// even if it has no listener there.
func mergeProblems(wanted []service.Frontend, problems map[service.Key]service.Problem,
	w *walk) map[service.Key]service.Problem {
	failed := maps.Clone(problems)
	maps.Copy(failed, w.failed)
	for _, f := range wanted {
		if why, bad := w.addrs[f.VIP]; bad {
			failed[f.Key] = why
		}
	}
	return failed
}

func describe(failed map[service.Key]service.Problem) (errs []error) {
	for _, key := range slices.SortedFunc(maps.Keys(failed),
		func(a, b service.Key) int { return cmp.Compare(a.String(), b.String()) }) {
		if len(errs) == 5 {
			return append(errs, fmt.Errorf("and %d more", len(failed)-5))
		}
		errs = append(errs, fmt.Errorf("%s: %s: %s", key, failed[key].Reason, failed[key].Text))
	}
	return errs
}

// repaired reports how many of our addresses others removed.
func (p *Proxy) repaired(ops []Op) {
	n := 0
	for _, op := range ops {
		if op.Verb == Add && op.Again {
			n++
		}
	}
	if n > 0 && p.done && p.opts.Reporter != nil {
		p.opts.Reporter.Repaired("address", n)
	}
}

func (p *Proxy) report(pass health.Pass) {
	if p.opts.Reporter != nil {
		p.opts.Reporter.Pass(pass)
	}
}

// tell reports the services whose status changed, and the changes of endpoints that are served now.
func (p *Proxy) tell(changed []health.ServiceStatus) {
	waiting := p.triggered[:0]
	for _, t := range p.triggered {
		switch {
		case p.status[t.service].State == health.Failed:
			waiting = append(waiting, t)
		case p.opts.Reporter != nil:
			p.opts.Reporter.Programmed(t.at)
		}
	}
	p.triggered = waiting
	if p.opts.Reporter == nil {
		return
	}
	for _, s := range changed {
		p.opts.Reporter.Service(s)
	}
}

// forgetGone forgets services that want nothing any more.
func (p *Proxy) forgetGone() {
	maps.DeleteFunc(p.states,
		func(_ string, s service.State) bool { return len(s.Frontends) == 0 && len(s.Problems) == 0 })
}

// shutDown ends the relay and removes our addresses from the host.
func (p *Proxy) shutDown() error {
	p.relay.Close()
	return p.owned.clear(p.opts.Host)
}

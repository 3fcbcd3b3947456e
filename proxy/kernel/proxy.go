package kernel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// Options of a Proxy.
type Options struct {
	// NetworkName of the pods' HNS network; required.
	NetworkName string
	// EnableDSR: cluster IPs with direct server return.
	EnableDSR bool
	// Host is HNS; required.
	Host host
	// Wanted gives the frontends now; false while the objects have not all arrived. Required.
	Wanted func() (service.Result, bool)
	// Changed wakes the loop; it may be woken for nothing.
	Changed <-chan struct{}
	// Settle is how long changes gather; 0 means 50 ms.
	Settle time.Duration
	// Period of the full check against HNS; 0 means 30 s.
	Period time.Duration
	// RetryMin and RetryMax bound the back-off after a failure; 0 means 1 s and 30 s.
	RetryMin, RetryMax time.Duration
	// Report is told the outcome of each pass; optional.
	Report func(health.Report)
}

// Proxy keeps HNS as the services want it. Run it once.
type Proxy struct {
	opts Options
	// facts and cache are the last observation, kept current by our own writes; valid says that they may be planned with.
	facts    Facts
	cache    Listed
	valid    bool
	observed time.Time
	// doubted counts listings that were empty where they had not been.
	doubted  int
	failures map[service.Key]failure
	done     bool // one pass was complete
}

type failure struct {
	service, reason string
	since           time.Time
}

// New makes a proxy; it calls nothing.
func New(opts Options) *Proxy {
	setDefault(&opts.Settle, 50*time.Millisecond)
	setDefault(&opts.Period, 30*time.Second)
	setDefault(&opts.RetryMin, time.Second)
	setDefault(&opts.RetryMax, 30*time.Second)
	return &Proxy{opts: opts, failures: map[service.Key]failure{}}
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Run keeps going until ctx ends. It leaves HNS as it is: services keep working without us.
func (p *Proxy) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	wake := time.NewTimer(0) // next pass, whatever for
	defer wake.Stop()
	retry := p.opts.RetryMin
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.opts.Changed:
			if !sleep(ctx, p.opts.Settle) {
				return nil
			}
			drain(p.opts.Changed)
		case <-wake.C:
		}
		again, err := p.Sync(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			logger.Error(err, "Services are not as wanted; trying again", "after", retry)
			wake.Reset(retry)
			retry = min(2*retry, p.opts.RetryMax)
		default:
			retry = p.opts.RetryMin
			wake.Reset(again)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func drain(c <-chan struct{}) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}

// Sync is one pass: observe if the cache is old or doubtful, plan, apply, report. It returns when the next pass is due,
// or an error when something is not as wanted and must be tried again.
func (p *Proxy) Sync(ctx context.Context) (time.Duration, error) {
	wanted, complete := p.opts.Wanted()
	if !complete {
		return p.opts.Period, nil // Changed wakes us
	}
	started := time.Now()
	fresh := !p.valid || time.Since(p.observed) >= p.opts.Period
	if fresh {
		if err := p.observe(ctx); err != nil {
			p.valid = false
			p.report(started, wanted, err)
			return 0, err
		}
	}
	plan := Plan(wanted.Frontends, p.cache, p.facts)
	if plan.MissingLocal && !fresh {
		// A pod of this node is newer than the cache.
		if err := p.observeEndpoints(ctx); err != nil {
			p.valid = false
			p.report(started, wanted, err)
			return 0, err
		}
		plan = Plan(wanted.Frontends, p.cache, p.facts)
	}
	logger := klog.FromContext(ctx)
	if len(plan.Ops) > 0 {
		logger.V(2).Info("Applying plan", "operations", len(plan.Ops), "right", plan.Right, "problems", len(plan.Problems))
	}
	w := walk{host: p.opts.Host, facts: p.facts, cache: &p.cache, failed: map[service.Key]error{}}
	w.apply(ctx, plan.Ops)
	p.valid = p.valid && !w.broken
	p.remember(wanted, plan, w.failed)
	p.done = true
	p.report(started, wanted, nil)
	if w.broken || plan.MissingLocal {
		p.valid = false
		return 0, p.failed()
	}
	return p.opts.Period - time.Since(p.observed), nil
}

// observe reads everything anew: the version, the network and one listing per kind. Its failure means that nothing is
// known, never that nothing is there.
func (p *Proxy) observe(ctx context.Context) error {
	version, err := p.opts.Host.Version(ctx)
	if err != nil {
		return err
	}
	network, err := p.opts.Host.NetworkByName(ctx, p.opts.NetworkName)
	if hns.IsAbsent(err) {
		return fmt.Errorf("waiting for the HNS network %q: %w", p.opts.NetworkName, err)
	}
	if err != nil {
		return err
	}
	if network.ID != p.facts.Network.ID {
		klog.FromContext(ctx).Info("Using network", "network", network.Name, "id", network.ID, "hns", version)
		p.doubted = 0
		p.cache = Listed{}
	}
	p.facts = Facts{Network: network, Version: version, DSR: p.opts.EnableDSR}
	endpoints, err := p.opts.Host.Endpoints(ctx, network.ID)
	if err != nil {
		return err
	}
	balancers, err := p.opts.Host.LoadBalancers(ctx)
	if err != nil {
		return err
	}
	// HNS that is starting lists nothing for a while: one such answer is not believed.
	lost := len(endpoints) == 0 && len(p.cache.Endpoints) > 0 || len(balancers) == 0 && len(p.cache.LoadBalancers) > 0
	if lost && p.doubted == 0 {
		p.doubted++
		return fmt.Errorf("HNS lists %d endpoints and %d load balancers where there were %d and %d: asking again",
			len(endpoints), len(balancers), len(p.cache.Endpoints), len(p.cache.LoadBalancers))
	}
	p.doubted = 0
	p.cache = Listed{Endpoints: endpoints, LoadBalancers: balancers}
	p.observed, p.valid = time.Now(), true
	return nil
}

func (p *Proxy) observeEndpoints(ctx context.Context) error {
	endpoints, err := p.opts.Host.Endpoints(ctx, p.facts.Network.ID)
	if err != nil {
		return err
	}
	if len(endpoints) == 0 && len(p.cache.Endpoints) > 0 {
		return fmt.Errorf("HNS lists no endpoints where there were %d: asking again", len(p.cache.Endpoints))
	}
	p.cache.Endpoints = endpoints
	return nil
}

// remember keeps the reason for every frontend that is not served as wanted, with the time since when.
func (p *Proxy) remember(wanted service.Result, plan Changes, failed map[service.Key]error) {
	now := time.Now()
	next := map[service.Key]failure{}
	note := func(key service.Key, name, reason string) {
		since := now
		if old, known := p.failures[key]; known {
			since = old.since
		}
		next[key] = failure{service: name, reason: reason, since: since}
	}
	names := map[service.Key]string{}
	for _, f := range wanted.Frontends {
		names[f.Key] = f.Service
	}
	for key, reason := range plan.Problems {
		note(key, names[key], reason)
	}
	for key, err := range failed {
		note(key, names[key], err.Error())
	}
	p.failures = next
}

func (p *Proxy) failed() error {
	var errs []error
	for _, key := range slices.SortedFunc(maps.Keys(p.failures), func(a, b service.Key) int {
		return compare(a.String(), b.String())
	}) {
		f := p.failures[key]
		errs = append(errs, fmt.Errorf("service %s at %s: %s", f.service, key, f.reason))
		if len(errs) == 5 && len(p.failures) > 5 {
			errs = append(errs, fmt.Errorf("and %d more", len(p.failures)-5))
			break
		}
	}
	if len(errs) == 0 {
		return errors.New("an operation failed")
	}
	return errors.Join(errs...)
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (p *Proxy) report(started time.Time, wanted service.Result, observing error) {
	if p.opts.Report == nil {
		return
	}
	r := health.Report{At: time.Now(), Took: time.Since(started), Observed: p.observed, Ready: p.done}
	if observing != nil {
		r.Error = observing.Error()
	}
	for _, f := range wanted.Frontends {
		if len(f.Backends) > 0 {
			r.Wanted++
		}
	}
	r.Programmed = r.Wanted
	if !p.done {
		r.Programmed = 0
	}
	for key, f := range p.failures {
		r.Failed = append(r.Failed, health.Failure{Service: f.service, Frontend: key.String(), Reason: f.reason, Since: f.since})
		r.Programmed--
	}
	for _, problem := range wanted.Problems {
		r.Unserved = append(r.Unserved, health.Failure{Service: problem.Service, Reason: problem.Text})
	}
	r.Programmed = max(r.Programmed, 0)
	r.Sort()
	p.opts.Report(r)
}

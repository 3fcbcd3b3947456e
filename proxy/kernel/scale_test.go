package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// large returns n services, each with its own backends.
func large(n, backends int) []service.State {
	states := make([]service.State, n)
	for i := range states {
		f := clusterIP(fmt.Sprintf("10.%d.%d.%d:80", 96+i/65536, i/256%256, i%256))
		f.Service = fmt.Sprintf("default/s%d", i)
		f.Backends = make([]service.Backend, backends)
		for j := range f.Backends {
			k := i*backends + j
			f.Backends[j] = service.Backend{
				Addr: netip.AddrFrom4([4]byte{10, byte(128 + k/65536), byte(k / 256), byte(k)}), Port: 80}
		}
		states[i] = service.State{Service: f.Service, Rank: service.RankOther, Frontends: []service.Frontend{f}}
	}
	return states
}

// standing is a proxy that has observed a host on which everything is as wanted.
func standing(states []service.State) *Proxy {
	p := New(Options{NetworkName: "porthole", EnableDSR: true,
		Take: func() ([]service.State, bool) { return nil, true }})
	p.logger = klog.Logger{}
	p.known.facts = factsOf(ws2022)

	for _, s := range states {
		f := &s.Frontends[0]
		for _, b := range f.Backends {
			p.known.putEndpoint(remote(b.Addr, &p.known.facts))
		}
		op := p.planner.Frontend(f).Ops[0]
		for _, b := range f.Backends {
			op.LB.Endpoints = append(op.LB.Endpoints, balance.EndpointID(net1.ID, b.Addr))
		}
		p.known.putBalancer(op.LB)
	}

	p.demand.complete, p.known.observed = true, time.Now()
	p.applyServices(states)
	p.planAll()
	return p
}

// replanAll plans everything, as if something had changed, and looks for unused endpoints.
func replanAll(p *Proxy) {
	p.known.planned = 0
	p.planAll()
	p.endpoints.sweep(p.targets.unserved(false))
}

// TestLargeCheckIsFast: with 10,000 services of ten endpoints each, a check that finds nothing to do takes less than
// half of the time of planning everything (about a sixth, some 10 ms). Both are measured in turn, so that a busy
// machine slows both.
func TestLargeCheckIsFast(t *testing.T) {
	states := large(10000, 10)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	p := standing(states)
	runtime.GC()
	runtime.ReadMemStats(&after)
	heap := (after.HeapAlloc - before.HeapAlloc) >> 20

	listed := step{network: net1}
	for _, s := range states {
		f := &s.Frontends[0]
		id, _ := balance.ParseGUID(balance.LoadBalancerID(f.Key))
		listed.balancers = append(listed.balancers, id)
		for _, b := range f.Backends {
			id, _ := balance.ParseGUID(balance.EndpointID(net1.ID, b.Addr))
			listed.endpoints = append(listed.endpoints, id)
		}
	}

	best, whole := time.Hour, time.Hour
	for range 10 {
		started := time.Now()
		unknown, lostEndpoints, lostBalancers := p.checks.match(&listed, nil)
		if !unknown.empty() || lostEndpoints+len(lostBalancers) != 0 {
			t.Fatal(unknown, lostEndpoints, lostBalancers)
		}
		p.planAll()
		p.reportProgress()
		best = min(best, time.Since(started))

		started = time.Now()
		replanAll(p)
		whole = min(whole, time.Since(started))
	}

	t.Logf("check: %s, when something changed: %s; heap: %d MiB beside what the tracker gave", best, whole, heap)
	if p.report.tally.programmed != 10000 || len(p.work.queue) != 0 {
		t.Fatalf("%+v, %d tasks", p.report.tally, len(p.work.queue))
	}
	if best > whole/2 {
		t.Errorf("a check that finds nothing to do took %s, planning everything %s", best, whole)
	}
	if heap > 40 {
		t.Errorf("%d MiB", heap)
	}
}

func BenchmarkCheck(b *testing.B) {
	p := standing(large(10000, 10))
	for b.Loop() {
		replanAll(p)
	}
}

// BenchmarkChange is one endpoint change of one of 10,000 services until HNS, which takes no time, has it.
func BenchmarkChange(b *testing.B) {
	states := large(10000, 10)
	changed := make(chan struct{}, 1)
	next := make(chan []service.State, 1)
	next <- states
	host := hnstest.New(hns.Version{Major: 15, Minor: 5}, net1)
	reporter := &counting{programmed: make(chan struct{}, 1), all: make(chan struct{}, 1)}
	p := New(Options{NetworkName: "porthole", EnableDSR: true, Host: HostOf(discard{host}), Changed: changed,
		Reporter: reporter,
		Settle:   time.Nanosecond, Take: func() ([]service.State, bool) {
			select {
			case s := <-next:
				return s, true
			default:
				return nil, true
			}
		}})
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer cancel()
	go func() { _ = p.Run(ctx) }()
	<-reporter.all
	i := 0

	for b.Loop() {
		s := states[i%len(states)]
		f := s.Frontends[0]
		f.Backends = append([]service.Backend{{Addr: netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}),
			Port: 80}}, f.Backends[1:]...)
		s.Frontends = []service.Frontend{f}
		s.Triggered = []time.Time{time.Now()}
		next <- []service.State{s}
		changed <- struct{}{}
		<-reporter.programmed
		i++
	}
}

// BenchmarkStart programs 2,000 services with 5,000 endpoints on a host that has none and takes no time.
func BenchmarkStart(b *testing.B) {
	states := large(2000, 2)
	for i := range states[:1000] {
		f := &states[i].Frontends[0]
		f.Backends = append(f.Backends,
			service.Backend{Addr: netip.AddrFrom4([4]byte{11, 0, byte(i / 256), byte(i)}), Port: 80})
	}

	for b.Loop() {
		reporter := &counting{programmed: make(chan struct{}, 1), all: make(chan struct{}, 1)}
		given := false
		p := New(Options{NetworkName: "porthole", EnableDSR: true, Host: HostOf(discard{hnstest.New(ws2022, net1)}),
			Reporter: reporter,
			Take: func() ([]service.State, bool) {
				if given {
					return nil, true
				}
				given = true
				return states, true
			}})
		ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
		ended := make(chan struct{})
		go func() { defer close(ended); _ = p.Run(ctx) }()
		<-reporter.all
		cancel()
		<-ended
	}
}

// counting sends on programmed for each programmed change, and on all when everything is programmed.
type counting struct {
	noReporter
	programmed, all chan struct{}
}

// Pass is for the proxy.
func (c *counting) Pass(p health.Pass) {
	if p.Wanted > 0 && p.Programmed == p.Wanted {
		select {
		case c.all <- struct{}{}:
		default:
		}
	}
}

// Programmed is for the proxy.
func (c *counting) Programmed(time.Time) { c.programmed <- struct{}{} }

// discard is a host that takes everything and remembers nothing: what is measured is the proxy.
type discard struct{ *hnstest.Fake }

func (discard) CreateEndpoint(_ context.Context, e hns.Endpoint) (hns.Endpoint, error) { return e, nil }
func (discard) DeleteEndpoint(context.Context, hns.EndpointID) error                   { return nil }
func (discard) CreateLoadBalancer(_ context.Context, lb hns.LoadBalancer) (hns.LoadBalancer, error) {
	return lb, nil
}
func (discard) ModifyLoadBalancer(_ context.Context, lb hns.LoadBalancer) (hns.LoadBalancer, error) {
	return lb, nil
}
func (discard) DeleteLoadBalancer(context.Context, hns.LoadBalancerID) error { return nil }

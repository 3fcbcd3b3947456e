package kernel

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// bench is a proxy on a fake host, in the time of a bubble.
type bench struct {
	t       *testing.T
	host    *hnstest.Fake
	changed chan struct{}
	notify  chan struct{}
	adjust  func(*Options)
	proxy   *Proxy
	stop    func()

	mu   sync.Mutex
	all  map[string]service.State // all services
	news map[string]bool          // those that Take has not returned yet
	told
}

// told is what the proxy has reported.
type told struct {
	passes     []health.Pass
	status     map[string]health.ServiceStatus
	programmed int // how often Programmed was called
	repaired   map[string]int
}

// seen returns what was reported so far. The proxy may report more meanwhile.
func (b *bench) seen() told {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.told
	r.passes, r.status, r.repaired = slices.Clone(r.passes), maps.Clone(r.status), maps.Clone(r.repaired)
	return r
}

// Pass is for the reporter.
func (b *bench) Pass(p health.Pass) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.passes = append(b.passes, p)
}

// Service is for the reporter.
func (b *bench) Service(s health.ServiceStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Removed {
		delete(b.status, s.Service)
		return
	}
	b.status[s.Service] = s
}

// Programmed is for the reporter.
func (b *bench) Programmed(time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.programmed++
}

// Repaired is for the reporter.
func (b *bench) Repaired(kind string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.repaired[kind] += n
}

// inBubble runs a test with a proxy that has started and has nothing left to do.
func inBubble(t *testing.T, version hns.Version, test func(*bench)) {
	onNetwork(t, version, net1, nil, test)
}

func onNetwork(t *testing.T, version hns.Version, network hns.Network, adjust func(*bench), test func(*bench)) {
	bubble.Test(t, func(t *testing.T) {
		b := &bench{
			t: t, host: hnstest.New(version, network), all: map[string]service.State{}, news: map[string]bool{},
			told:    told{status: map[string]health.ServiceStatus{}, repaired: map[string]int{}},
			changed: make(chan struct{}, 1), notify: make(chan struct{}, 1), adjust: func(*Options) {},
		}
		if adjust != nil {
			adjust(b)
		}
		b.start()
		bubble.Wait()
		test(b)
		b.stop()
	})
}

// start runs a new proxy.
func (b *bench) start() {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	b.mu.Lock()
	for name := range b.all {
		b.news[name] = true
	}
	b.mu.Unlock()
	opts := Options{
		NetworkName: "porthole", EnableDSR: true, Host: HostOf(b.host), Take: b.take, Changed: b.changed,
		Notify: b.notify, Reporter: b,
	}
	b.adjust(&opts)
	b.proxy = New(opts)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := b.proxy.Run(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	b.stop = func() { cancel(); <-ended; bubble.Wait() }
}

// restart ends the proxy and starts a new one.
func (b *bench) restart() { b.stop(); b.start() }

func (b *bench) take() ([]service.State, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []service.State
	for name := range b.news {
		s := b.all[name]
		s.Service, s.Rank = name, service.RankOther
		if name == "kube-system/kube-dns" {
			s.Rank = service.RankDNS
		}
		out = append(out, s)
		delete(b.news, name)
	}
	return out, true
}

// want replaces all services.
func (b *bench) want(frontends ...service.Frontend) {
	b.mu.Lock()
	for name := range b.all {
		b.news[name] = true
		delete(b.all, name)
	}
	for _, f := range frontends {
		s := b.all[f.Service]
		s.Frontends = append(s.Frontends, f)
		s.Triggered = []time.Time{time.Now()}
		b.all[f.Service] = s
		b.news[f.Service] = true
	}
	b.mu.Unlock()
	b.wake()
}

// remove removes one service.
func (b *bench) remove(name string) {
	b.mu.Lock()
	delete(b.all, name)
	b.news[name] = true
	b.mu.Unlock()
	b.wake()
}

// wake announces a change.
func (b *bench) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) { time.Sleep(d); bubble.Wait() }

// soon lets the settling time pass, and no period.
func (b *bench) soon() { b.pass(50 * time.Millisecond) }

// heal ends all faults and waits for back-offs and a full check.
func (b *bench) heal() {
	b.host.SetFault(nil)
	b.pass(95 * time.Second)
}

func (b *bench) expectCalls(want string) {
	b.t.Helper()
	got := b.host.Calls()
	b.host.ResetCalls()
	if diff := cmp.Diff(strings.TrimLeft(want, "\n"), got); diff != "" {
		b.t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func (b *bench) expectHost(want string) {
	b.t.Helper()
	if diff := cmp.Diff(strings.TrimLeft(want, "\n"), b.host.Dump()); diff != "" {
		b.t.Errorf("host (-want +got):\n%s", diff)
	}
}

// expectState checks the status of one service.
func (b *bench) expectState(name string, want health.State, reason string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := b.status[name]; got.State != want || got.Reason != reason {
		b.t.Errorf("status of %s: %+v, wanted %s %s", name, got, want, reason)
	}
}

// writes returns the number of calls so far that change HNS.
func (b *bench) writes() int {
	n := 0
	for _, kind := range []string{"create endpoint", "create load balancer", "modify load balancer", "delete endpoint",
		"delete load balancer"} {
		n += b.host.Count(kind)
	}
	return n
}

// edit changes HNS as another program would.
func (b *bench) edit(change func(endpoints *[]hns.Endpoint, balancers *[]hns.LoadBalancer)) {
	b.host.Edit(func(e *[]hns.Endpoint, l *[]hns.LoadBalancer, _ *[]hns.Network) { change(e, l) })
}

// ideal returns what a host has on which nothing went wrong.
func (b *bench) ideal() string {
	b.t.Helper()
	calm := hnstest.New(b.host.HNS, net1)
	var locals []hns.Endpoint
	b.edit(func(e *[]hns.Endpoint, _ *[]hns.LoadBalancer) {
		for _, x := range *e {
			if !x.Remote {
				locals = append(locals, x)
			}
		}
	})
	calm.Edit(func(e *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) { *e = locals })
	b.mu.Lock()
	var wanted []service.Frontend
	for _, s := range b.all {
		wanted = append(wanted, s.Frontends...)
	}
	b.mu.Unlock()
	facts := balance.Facts{Network: net1, Version: b.host.HNS, DSR: true}
	planner := balance.Planner{Index: balance.IndexOf(balance.Listed{Endpoints: locals}), Facts: &facts}
	ctx := context.Background()

	for _, op := range planner.Diff(balance.Wanted{Frontends: wanted}).Ops {
		var err error
		if op.Verb == balance.CreateEndpoint {
			_, err = calm.CreateEndpoint(ctx, remote(op.Addr, &facts))
		} else {
			var index *balance.Index
			calm.Edit(func(e *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
				index = balance.IndexOf(balance.Listed{Endpoints: *e})
			})
			for _, backend := range op.Backends {
				op.LB.Endpoints = append(op.LB.Endpoints, hns.EndpointID(index.Find(backend).ID.String()))
			}
			_, err = calm.CreateLoadBalancer(ctx, op.LB)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}

	return calm.Dump()
}

func addr(i int) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(3 + i/200), byte(10 + i%200)}), 80).String()
}

func vip(i int) string { return fmt.Sprintf("10.96.%d.%d:80", i/200, 10+i%200) }

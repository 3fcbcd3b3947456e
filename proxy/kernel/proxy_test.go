package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// bench is a proxy on a fake host.
type bench struct {
	t      *testing.T
	host   *hnstest.Fake
	wanted []service.Frontend
	proxy  *Proxy
	report health.Report
}

// quiet drops the log: faults fill it.
func quiet() context.Context { return klog.NewContext(context.Background(), klog.Logger{}) }

func newBench(t *testing.T, version hns.Version) *bench {
	b := &bench{t: t, host: hnstest.New(version, net1)}
	b.restart()
	return b
}

// restart forgets everything that the proxy knew.
func (b *bench) restart() {
	b.proxy = New(Options{
		NetworkName: "porthole", EnableDSR: true, Host: b.host,
		Wanted: func() (service.Result, bool) { return service.Result{Frontends: b.wanted}, true },
		Report: func(r health.Report) { b.report = r },
	})
}

func (b *bench) sync() {
	b.t.Helper()
	if _, err := b.proxy.Sync(quiet()); err != nil {
		b.t.Fatal(err)
	}
}

// settle syncs until nothing is left to do; faults may stand in the way many times.
func (b *bench) settle() {
	b.t.Helper()
	var err error
	for range 200 {
		if _, err = b.proxy.Sync(quiet()); err == nil {
			return
		}
	}
	b.t.Fatalf("not settled after 200 passes: %v", err)
}

// refresh makes the next pass a full check.
func (b *bench) refresh() { b.proxy.valid = false }

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

func TestNewServiceCostsFourCalls(t *testing.T) {
	b := newBench(t, ws2022)
	b.wanted = []service.Frontend{clusterIP("10.96.0.1:443", "10.99.0.11:6443")}
	b.sync()
	b.expectCalls("create endpoint: 1\ncreate load balancer: 1\nfind network: 1\nlist endpoints: 1\nlist load balancers: 1\nread version: 1\n")
	b.wanted = append(b.wanted, clusterIP("10.96.0.10:80", "10.244.3.1:80", "10.244.3.2:80", "10.244.3.3:80"))
	b.sync()
	b.expectCalls("create endpoint: 3\ncreate load balancer: 1\n")
	b.sync()
	b.expectCalls("")
	b.restart()
	b.sync()
	b.expectCalls("find network: 1\nlist endpoints: 1\nlist load balancers: 1\nread version: 1\n")
}

func TestLostObjectsComeBack(t *testing.T) {
	b := newBench(t, ws2025)
	b.wanted = []service.Frontend{clusterIP("10.96.0.10:80", "10.244.3.1:80"), clusterIP("10.96.0.11:80", "10.244.3.1:80")}
	b.sync()
	before := b.host.Dump()
	b.host.Edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer, _ *[]hns.Network) { *lbs = (*lbs)[:1] })
	b.refresh()
	b.sync()
	b.expectHost(before)
	b.host.Edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer, _ *[]hns.Network) { *eps, *lbs = nil, nil })
	b.refresh()
	b.settle() // the first empty answer is doubted
	b.expectHost(before)
}

func TestUnknownChangesNothing(t *testing.T) {
	b := newBench(t, ws2022)
	b.wanted = []service.Frontend{clusterIP("10.96.0.10:80", "10.244.3.1:80")}
	b.sync()
	before := b.host.Dump()
	b.host.ResetCalls()
	for _, how := range []hnstest.Outcome{hnstest.Fail, hnstest.AnswerNothing} {
		for _, kind := range []string{"find network", "list endpoints", "list load balancers"} {
			b.host.SetFault(func(k string) hnstest.Outcome {
				if k == kind {
					return how
				}
				return hnstest.Work
			})
			b.refresh()
			_, _ = b.proxy.Sync(quiet()) // may fail; must not write
			b.expectHost(before)
			b.host.SetFault(nil)
			b.settle()
		}
	}
	for _, write := range []string{"create endpoint", "create load balancer", "delete endpoint", "delete load balancer"} {
		if n := b.host.Count(write); n != 0 {
			t.Errorf("%s: %d calls", write, n)
		}
	}
}

func TestModifyThatLies(t *testing.T) {
	b := newBench(t, ws2025)
	b.wanted = []service.Frontend{clusterIP("10.96.0.10:80", "10.244.3.1:80")}
	b.sync()
	b.host.SetFault(func(kind string) hnstest.Outcome {
		if kind == "modify load balancer" {
			return hnstest.LieAboutIt
		}
		return hnstest.Work
	})
	b.wanted[0] = clusterIP("10.96.0.10:80", "10.244.3.2:80")
	b.sync()
	b.expectHost("endpoint remote 10.244.3.2 \"porthole-remote-10.244.3.2\"\nlb 10.96.0.10 80/tcp->80 10.244.3.2\n")
}

func TestLocalPodNewerThanCache(t *testing.T) {
	b := newBench(t, ws2025)
	b.sync()
	b.host.ResetCalls()
	b.host.Edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
		*eps = append(*eps, local("10.244.2.5"))
	})
	b.wanted = []service.Frontend{clusterIP("10.96.0.10:80", "local 10.244.2.5:80")}
	b.sync()
	b.expectCalls("create load balancer: 1\nlist endpoints: 1\n")
}

func TestOneBadServiceDoesNotStopOthers(t *testing.T) {
	b := newBench(t, ws2025)
	b.wanted = []service.Frontend{clusterIP("10.96.0.10:80", "local 10.244.2.9:80"), clusterIP("10.96.0.11:80", "10.244.3.1:80")}
	if _, err := b.proxy.Sync(quiet()); err == nil || !strings.Contains(err.Error(), "10.96.0.10") {
		t.Errorf("error does not name the service: %v", err)
	}
	b.expectHost("endpoint remote 10.244.3.1 \"porthole-remote-10.244.3.1\"\nlb 10.96.0.11 80/tcp->80 10.244.3.1\n")
	if b.report.Wanted != 2 || b.report.Programmed != 1 || len(b.report.Failed) != 1 {
		t.Errorf("report: %+v", b.report)
	}
}

// Every tenth call fails, before or after its effect; services come and go; in the end the host is as if nothing had.
func TestFaultsHeal(t *testing.T) {
	for _, how := range []hnstest.Outcome{hnstest.Fail, hnstest.DoThenFail} {
		for _, version := range []hns.Version{ws2019, ws2025} {
			t.Run(fmt.Sprintf("%v %v", how, version), func(t *testing.T) {
				b, calm := newBench(t, version), newBench(t, version)
				b.host.SetFault(hnstest.OneIn(10, 1, how))
				for round := range 12 {
					var wanted []service.Frontend
					for i := range 8 {
						if (i+round)%5 == 0 {
							continue
						}
						vip := fmt.Sprintf("10.96.0.%d:80", 10+i)
						wanted = append(wanted, clusterIP(vip, addr(i), addr(40+i+round), addr(20+round%3)))
					}
					b.wanted, calm.wanted = wanted, wanted
					if round%4 == 3 {
						b.restart()
					}
					b.settle()
					calm.settle()
					b.expectHost(calm.host.Dump())
				}
			})
		}
	}
}

func addr(i int) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 3, byte(10 + i)}), 80).String()
}

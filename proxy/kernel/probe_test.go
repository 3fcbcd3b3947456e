package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/proxy/service"
)

// plane answers connections, except to dead addresses.
type plane struct {
	mu      sync.Mutex
	dead    map[string]bool // "address:port"
	dialled []string
	results map[string]int
}

func (d *plane) dial(_ context.Context, to netip.AddrPort) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dialled = append(d.dialled, to.String())
	if d.dead[to.String()] {
		return errors.New("no answer")
	}
	return nil
}

func (d *plane) kill(dead ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead, d.dialled = map[string]bool{}, nil
	for _, a := range dead {
		d.dead[a] = true
	}
}

func (d *plane) asked(at string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.dialled, at)
}

func withProbes(t *testing.T, test func(*bench, *plane)) {
	d := &plane{results: map[string]int{}}
	onNetwork(t, ws2022, net1, func(b *bench) {
		b.adjust = func(o *Options) { o.Dial, o.Probed = d.dial, func(result string) { d.results[result]++ } }
	}, func(b *bench) { test(b, d) })
}

// udp returns the same service's frontend for UDP.
func udp(f service.Frontend) service.Frontend {
	f.Protocol = hns.UDP
	return f
}

func dns() service.Frontend {
	f := clusterIP("10.96.0.10:53", "10.244.3.9:53")
	f.Service = "kube-system/kube-dns"
	return f
}

// A load balancer that is listed and does not work is created again. Others, and those whose backends are dead, are
// left alone.
func TestLostRuleIsRepaired(t *testing.T) {
	withProbes(t, func(b *bench, d *plane) {
		web := clusterIP("10.96.0.11:80", "10.244.3.1:8080", "10.244.3.2:8080")
		b.want(web, dns(), udp(dns()))
		b.pass(35 * time.Second)
		if d.results[ProbeAnswered] != 2 {
			t.Errorf("%v", d.results)
		}

		b.host.ResetCalls()
		d.kill("10.96.0.11:80", "10.244.3.2:8080")
		b.pass(65 * time.Second)
		if n := b.writes(); n != 0 || d.results[ProbeInconclusive] == 0 {
			t.Errorf("%d writes while a backend is dead; %v", n, d.results)
		}

		before := b.host.Dump()
		d.kill("10.96.0.11:80")
		b.pass(30 * time.Second)
		if c, x := b.host.Count("create load balancer"), b.host.Count("delete load balancer"); c != 1 || x != 1 ||
			b.seen().repaired["load balancer rule"] != 1 {
			t.Errorf("%d created, %d deleted, %v", c, x, b.seen().repaired)
		}
		b.expectHost(before)

		b.pass(time.Hour) // in vain
		if n := b.writes(); n != 2 {
			t.Errorf("%d writes for one that never answers again", n)
		}

		d.kill()
		b.pass(time.Minute)
		b.host.ResetCalls()
		d.kill("10.96.0.10:53")
		b.pass(30 * time.Second)
		if c := b.host.Count("create load balancer"); c != 2 {
			t.Errorf("%d load balancers of DNS were created anew, wanted those of TCP and UDP", c)
		}
	})
}

// The first attempt fails, with or without an effect. The load balancer is created again nevertheless.
func TestLostRuleIsRepairedLater(t *testing.T) {
	for _, call := range []string{"delete load balancer", "create load balancer"} {
		for _, how := range []hnstest.Outcome{hnstest.Fail, hnstest.DoThenFail} {
			t.Run(fmt.Sprint(call, " ", how), func(t *testing.T) {
				withProbes(t, func(b *bench, d *plane) {
					b.want(clusterIP("10.96.0.11:80", "10.244.3.1:8080"))
					b.pass(35 * time.Second)

					b.host.ResetCalls()
					before, failed := b.host.Dump(), false
					b.host.SetFault(func(kind string) hnstest.Outcome {
						if kind != call || failed {
							return hnstest.Work
						}
						failed = true
						return how
					})
					d.kill("10.96.0.11:80")
					b.pass(45 * time.Second)
					if c, x := b.host.Count("create load balancer"), b.host.Count("delete load balancer"); !failed ||
						c == 0 || x == 0 {
						t.Errorf("%d created, %d deleted, the fault came: %v", c, x, failed)
					}
					b.expectHost(before)
				})
			})
		}
	}
}

// Where programs of the node reach no load balancer at all, nothing is concluded.
func TestProbesWhereTheNodeReachesNothing(t *testing.T) {
	withProbes(t, func(b *bench, d *plane) {
		d.kill("10.96.0.11:80", "10.96.0.12:80")
		b.want(clusterIP("10.96.0.11:80", "10.244.3.1:80"), clusterIP("10.96.0.12:80", "10.244.3.1:80"))
		b.soon()
		b.host.ResetCalls()
		b.pass(10 * time.Minute)
		if n := b.writes(); n != 0 || d.results[ProbeInconclusive] == 0 || d.results[ProbeLost] != 0 {
			t.Errorf("%d writes; %v", n, d.results)
		}
	})
}

// A round asks a few services in turn. If two are lost at once, the host may have lost more: all are asked, and those
// that do not answer are created again.
func TestProbesOfMany(t *testing.T) {
	withProbes(t, func(b *bench, d *plane) {
		wanted := []service.Frontend{dns()}
		var half []string
		for i := range 40 {
			wanted = append(wanted, clusterIP(vip(i), "10.244.3.1:80"))
			if i%2 == 0 {
				half = append(half, vip(i))
			}
		}

		b.want(wanted...)
		b.pass(31 * time.Second)
		d.kill()
		b.pass(30 * time.Second)
		if n := len(d.dialled); n != probesInTurn+1 || !d.asked("10.96.0.10:53") {
			t.Errorf("%d asked in a round: %v", n, d.dialled)
		}

		b.pass(4 * time.Minute)
		for i := range 40 {
			if !d.asked(vip(i)) {
				t.Errorf("%s was not asked in its turn", vip(i))
			}
		}

		b.host.ResetCalls()
		d.kill(half...)
		b.pass(31 * time.Second)
		if n := b.host.Count("create load balancer"); n != 20 {
			t.Errorf("%d created anew", n)
		}
	})
}

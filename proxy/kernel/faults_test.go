package kernel

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// Services come and go at random, one call in ten fails, the proxy is killed during calls, and other programs delete
// objects. After that, HNS has exactly what is wanted, within a bounded time and number of calls.
func TestChurnWithFaultsAndKills(t *testing.T) {
	for _, how := range []hnstest.Outcome{hnstest.Fail, hnstest.DoThenFail, hnstest.Vanish, hnstest.LieAboutIt} {
		for _, version := range []hns.Version{ws2019, ws2025} {
			for seed := range uint64(5) {
				t.Run(fmt.Sprintf("%v %v %d", how, version, seed), func(t *testing.T) {
					inBubble(t, version, func(b *bench) { churn(b, how, seed) })
				})
			}
		}
	}
}

func churn(b *bench, how hnstest.Outcome, seed uint64) {
	chance := rand.New(rand.NewPCG(seed, 1))
	b.host.Latency = func(string) time.Duration { return 3 * time.Millisecond }
	b.edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer) {
		*eps = append(*eps, local("10.244.2.5"), local("10.244.2.6"))
	})
	b.host.SetFault(hnstest.OneIn(10, seed, how))

	for range 25 {
		b.want(randomServices(chance)...)
		b.pass(time.Duration(chance.IntN(200)) * time.Millisecond)
		switch chance.IntN(8) {
		case 0:
			b.restart()
		case 1:
			b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
				if n := len(*lbs); n > 0 {
					*lbs = append((*lbs)[:0:0], (*lbs)[chance.IntN(n):]...)
				}
			})
		}
	}

	b.host.ResetCalls()
	b.heal()
	b.expectHost(b.ideal())
	if n := b.writes(); n > 200 {
		b.t.Errorf("%d writes to heal", n)
	}

	b.host.ResetCalls()
	b.pass(5 * time.Minute)
	if n := b.writes(); n != 0 {
		b.t.Errorf("%d writes while nothing changes:\n%s", n, b.host.Calls())
	}

	for name, s := range b.seen().status {
		if s.State != health.Programmed {
			b.t.Errorf("%s: %+v", name, s)
		}
	}
}

func randomServices(chance *rand.Rand) []service.Frontend {
	var all []service.Frontend
	for i := range 12 {
		if chance.IntN(4) == 0 {
			continue
		}
		var backends []string
		for _, j := range chance.Perm(12)[:chance.IntN(5)] {
			backends = append(backends, addr(j))
		}
		if chance.IntN(3) == 0 {
			backends = append(backends, "local 10.244.2.5:80")
		}
		f := clusterIP(vip(i), backends...)
		if i%4 == 3 {
			f = nodePort(uint16(30000+i), backends...)
			f.Service = vip(i)
		}
		all = append(all, f)
	}
	return all
}

func TestBackendsComeAndGoWithFailingDeletes(t *testing.T) {
	for _, version := range []hns.Version{ws2019, ws2025} {
		inBubble(t, version, func(b *bench) {
			one := hnstest.OneIn(10, 7, hnstest.Fail)
			b.host.SetFault(func(kind string) hnstest.Outcome {
				if strings.HasPrefix(kind, "delete") {
					return one(kind)
				}
				return hnstest.Work
			})
			for range 100 {
				b.want(nodePort(30080, addr(1), addr(2), addr(3)))
				b.pass(100 * time.Millisecond)
				b.want(nodePort(30080))
				b.pass(100 * time.Millisecond)
			}
			b.want(nodePort(30080, addr(1), addr(2), addr(3)))
			b.pass(35 * time.Second)
			b.expectHost(b.ideal())
			if n := b.writes(); n > 100*8*12/10 {
				t.Errorf("%d writes", n)
			}
		})
	}
}

func TestOtherProgramDeletes(t *testing.T) {
	for _, percent := range []int{1, 50, 99} {
		inBubble(t, ws2022, func(b *bench) {
			var all []service.Frontend
			for i := range 300 {
				all = append(all, clusterIP(vip(i), addr(i), addr(i+1)))
			}

			b.want(all...)
			b.soon()
			before := b.host.Dump()
			b.host.ResetCalls()
			chance := rand.New(rand.NewPCG(1, 1))
			lost := 0
			b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
				var left []hns.LoadBalancer
				for _, lb := range *lbs {
					if chance.IntN(100) < percent {
						lost++
						continue
					}
					left = append(left, lb)
				}
				*lbs = left
			})
			b.pass(31 * time.Second)
			b.expectHost(before)
			if got := b.writes(); got != lost || b.seen().repaired["load balancer"] != lost {
				t.Errorf("%d lost, %d writes, %v repaired", lost, got, b.seen().repaired)
			}
		})
	}
}

// An altered document is found when it is read in turn. With few objects that is in the next full check.
func TestAlteredDocument(t *testing.T) {
	inBubble(t, ws2025, func(b *bench) {
		b.want(clusterIP("10.96.0.10:80", addr(1)), clusterIP("10.96.0.11:80", addr(2)))
		b.soon()
		before := b.host.Dump()
		b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) { (*lbs)[1].Endpoints = (*lbs)[0].Endpoints })
		b.pass(3 * time.Minute)
		b.expectHost(before)
		if b.seen().repaired["load balancer"] != 1 {
			t.Errorf("repaired: %v", b.seen().repaired)
		}
	})
}

// TestHalfDocuments gives endpoints without addresses to a proxy that starts (kubernetes/kubernetes#141489).
func TestHalfDocuments(t *testing.T) {
	halve := func(kind string) hnstest.Outcome {
		if kind == "read endpoint" {
			return hnstest.Halve
		}
		return hnstest.Work
	}
	inBubble(t, ws2022, func(b *bench) {
		b.edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer) { *eps = append(*eps, local("10.244.2.5")) })
		web := clusterIP("10.96.0.10:80", addr(1), "local 10.244.2.5:80")
		b.want(web)
		b.soon()
		before := b.host.Dump()
		b.host.SetFault(halve)
		b.restart()
		b.pass(3 * time.Second)
		b.expectHost(before)
		b.expectState(web.Service, health.Failed, "HalfDocument")

		b.host.SetFault(nil)
		b.host.ResetCalls()
		b.pass(10 * time.Second)
		b.expectHost(before)
		b.expectState(web.Service, health.Programmed, "")
		if n := b.writes(); n != 0 {
			t.Errorf("%d writes", n)
		}
		// If the document stays incomplete, the endpoint is deleted in the end, and created again.
		b.host.SetFault(halve)
		b.restart()
		b.pass(5 * time.Minute)
		b.host.SetFault(nil)
		b.pass(20 * time.Minute)
		b.expectHost(before)
	})
}

func TestHNSRestarts(t *testing.T) {
	for _, keep := range []string{"all", "none", "half"} {
		t.Run(keep, func(t *testing.T) {
			inBubble(t, ws2022, func(b *bench) {
				b.edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer) { *eps = append(*eps, local("10.244.2.5")) })
				var all []service.Frontend
				for i := range 100 {
					all = append(all, clusterIP(vip(i), addr(i), "local 10.244.2.5:80"))
				}

				all[99].Service = "kube-system/kube-dns"
				b.want(all...)
				b.soon()
				before := b.host.Dump()
				b.host.SetFault(func(string) hnstest.Outcome { return hnstest.Fail })
				b.host.ResetCalls()
				b.pass(28 * time.Second)
				b.want(append(all, clusterIP(vip(200), addr(200)))...) // something changes meanwhile
				b.pass(5 * time.Second)
				b.edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
					switch keep {
					case "none":
						*eps, *lbs = []hns.Endpoint{local("10.244.2.5")}, nil
					case "half":
						*lbs = (*lbs)[:50]
					}
				})
				if n := b.writes(); n > 8 {
					t.Errorf("%d writes while HNS was away", n)
				}

				b.host.Latency = func(string) time.Duration { return 10 * time.Millisecond }
				b.host.SetFault(nil)
				started := time.Now()
				dns := time.Duration(0)
				for time.Since(started) < 20*time.Second {
					b.pass(100 * time.Millisecond)
					if dns == 0 && strings.Contains(b.host.Dump(), "lb "+strings.TrimSuffix(vip(99), ":80")+" ") {
						dns = time.Since(started)
					}
				}
				b.expectHost(b.ideal())
				if dns == 0 || dns > 2*time.Second { // HNS is asked every second whether it is back
					t.Errorf("DNS was back after %s", dns)
				}

				b.want(all...)
				b.pass(5 * time.Second)
				b.expectHost(before)
			})
		})
	}
}

// HNS has no port block left for one service. That is reported; the others, DNS among them, are not affected.
func TestFullPortPool(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		var full atomic.Bool
		full.Store(true)
		b.host.Refuse = func(kind string, _ *hns.Endpoint, lb *hns.LoadBalancer) error {
			if lb != nil && full.Load() && lb.Ports[0].External == 30099 {
				return &hns.Error{Doing: kind, Class: hns.Exists, Code: 0x803b0013,
					Err: fmt.Errorf("the specified port already exists")}
			}

			return nil
		}
		name, last := clusterIP(vip(1), addr(1)), nodePort(30099, addr(2))
		name.Service, last.Service = "kube-system/kube-dns", "default/last"
		b.want(name, last)
		b.pass(2 * time.Second)
		b.expectState("kube-system/kube-dns", health.Programmed, "")
		b.expectState("default/last", health.Failed, "FrontendExists")
		if s := b.seen().status["default/last"]; s.Code != 0x803b0013 || s.Failures < 2 {
			t.Errorf("status: %+v", s)
		}

		b.host.ResetCalls()
		b.pass(5 * time.Minute)
		if n := b.writes(); n > 20 {
			t.Errorf("%d attempts in five minutes", n)
		}

		full.Store(false)
		b.pass(31 * time.Second)
		b.expectState("default/last", health.Programmed, "")
	})
}

func TestNetworkIsCreatedAgain(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		b.want(clusterIP(vip(1), addr(1)))
		b.soon()
		before := b.host.Dump()
		b.host.Edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer, networks *[]hns.Network) {
			*eps, *lbs, *networks = nil, nil, nil
		})
		b.pass(35 * time.Second)
		if p := b.seen().passes[len(b.seen().passes)-1]; p.Err == nil ||
			!strings.Contains(p.Err.Error(), "waiting for the HNS network") {
			t.Errorf("pass: %+v", p)
		}
		other := net1
		other.ID = "net-2"
		b.host.Edit(func(_ *[]hns.Endpoint, _ *[]hns.LoadBalancer, networks *[]hns.Network) {
			*networks = append(*networks, other)
		})
		b.pass(6 * time.Second)
		b.expectHost(before)
	})
}

func TestEndpointThatCannotBeMade(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		var refuse atomic.Bool
		refuse.Store(true)
		b.host.Refuse = func(kind string, e *hns.Endpoint, _ *hns.LoadBalancer) error {
			if e != nil && refuse.Load() && e.Addrs[0].String() == "10.244.3.12" {
				return &hns.Error{Doing: kind, Class: hns.Invalid, Code: 0x803b002f,
					Err: fmt.Errorf("an address provided is invalid or reserved")}
			}
			return nil
		}
		f := clusterIP(vip(1), addr(1), addr(2))
		b.want(f)
		b.pass(5 * time.Second)
		b.expectHost(
			"endpoint remote 10.244.3.11 \"porthole-remote-10.244.3.11\"\nlb 10.96.0.11 80/tcp->80 10.244.3.11\n")
		b.expectState(f.Service, health.Failed, balance.ReasonEndpointFailed)
		refuse.Store(false)
		b.pass(65 * time.Second)
		b.expectHost(b.ideal())
		b.expectState(f.Service, health.Programmed, "")
	})
}

package kernel

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

func TestStartAddRestart(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		b.expectCalls("find network: 1\nlist endpoint ids: 1\nlist load balancer ids: 1\nread version: 1\n")

		web := clusterIP("10.96.0.10:80", "10.244.3.1:80", "10.244.3.2:80")
		b.want(web)
		b.soon()
		b.expectCalls("create endpoint: 2\ncreate load balancer: 1\n")
		b.expectState(web.Service, health.Programmed, "")

		b.want(clusterIP("10.96.0.10:80", "10.244.3.1:80", "10.244.3.2:80", "10.244.3.3:80"))
		b.soon()
		b.expectCalls("create endpoint: 1\ncreate load balancer: 1\ndelete load balancer: 1\n")
		if b.seen().programmed != 2 {
			t.Errorf("%d changes were told to be programmed", b.seen().programmed)
		}

		b.restart()
		b.soon()
		b.expectCalls(
			"find network: 1\nlist endpoint ids: 1\nlist load balancer ids: 1\nread endpoint: 3\nread load balancer: 1\nread version: 1\n")
		b.expectState(web.Service, health.Programmed, "")

		b.pass(5 * time.Minute)
		b.expectCalls(
			"list endpoint ids: 10\nlist load balancer ids: 10\nlist load balancer outlines: 10\nlist network ids: 10\nread endpoint: 7\nread load balancer: 3\n")

		b.want()
		b.soon()
		b.expectCalls("delete endpoint: 3\ndelete load balancer: 1\n")
		b.expectHost("")
		if len(b.seen().status) != 0 {
			t.Errorf("services are left: %v", b.seen().status)
		}
	})
}

func TestModifyWhereHNSCan(t *testing.T) {
	inBubble(t, ws2025, func(b *bench) {
		b.want(clusterIP("10.96.0.10:80", "10.244.3.1:80"))
		b.soon()
		b.host.ResetCalls()
		b.want(clusterIP("10.96.0.10:80", "10.244.3.1:80", "10.244.3.2:80"))
		b.soon()
		b.expectCalls("create endpoint: 1\nmodify load balancer: 1\n")
	})
}

func TestLostObjectsComeBackInAPeriod(t *testing.T) {
	inBubble(t, ws2025, func(b *bench) {
		b.want(clusterIP("10.96.0.10:80", "10.244.3.1:80"), clusterIP("10.96.0.11:80", "10.244.3.1:80"))
		b.soon()
		before := b.host.Dump()
		b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) { *lbs = (*lbs)[:1] })
		b.pass(30 * time.Second)
		b.expectHost(before)
		b.edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer) { *eps, *lbs = nil, nil })
		b.pass(30*time.Second + 300*time.Millisecond) // the first empty answer is doubted
		b.expectHost(before)
		if b.seen().repaired["load balancer"] != 3 || b.seen().repaired["endpoint"] != 1 {
			t.Errorf("repaired: %v", b.seen().repaired)
		}
		b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) { *lbs = (*lbs)[:1] })
		b.pass(2 * time.Second)
		b.notify <- struct{}{}
		b.soon()
		b.expectHost(before)
	})
}

func TestUnknownChangesNothing(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		b.want(clusterIP("10.96.0.10:80", "10.244.3.1:80"))
		b.soon()
		before := b.host.Dump()
		b.host.ResetCalls()
		for _, how := range []hnstest.Outcome{hnstest.Fail, hnstest.AnswerNothing} {
			for _, kind := range []string{"list network ids", "list endpoint ids", "list load balancer ids",
				"read endpoint", "read load balancer"} {
				failing := true
				b.host.SetFault(func(k string) hnstest.Outcome {
					if k == kind && failing {
						failing = how != hnstest.AnswerNothing // an empty answer comes once
						return how
					}
					return hnstest.Work
				})
				b.pass(30 * time.Second)
				b.expectHost(before)

				b.host.SetFault(nil)
				b.pass(35 * time.Second)
			}
		}
		b.expectHost(before)
		if n := b.writes(); n != 0 {
			t.Errorf("%d writes", n)
		}
	})
}

func TestNoWritesWhileHNSIsAway(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		var all []service.Frontend
		for i := range 200 {
			all = append(all, clusterIP(vip(i), addr(i)))
		}
		b.want(all[:100]...)
		b.soon()
		b.host.ResetCalls()
		b.host.SetFault(func(string) hnstest.Outcome { return hnstest.Fail })
		b.want(all...)
		b.pass(5 * time.Second)
		if n := b.writes(); n > 8 {
			t.Errorf("%d writes were tried while HNS was away", n)
		}
		if b.seen().passes[len(b.seen().passes)-1].Err == nil {
			t.Error("the last pass has no error")
		}
		b.host.SetFault(nil)
		b.pass(6 * time.Second)
		b.expectHost(b.ideal())
	})
}

// TestHNSComesBackWithoutItsLoadBalancers: half a second after HNS is back they are created again. That it lists none
// is believed the second time.
func TestHNSComesBackWithoutItsLoadBalancers(t *testing.T) {
	for _, away := range []time.Duration{1300 * time.Millisecond, 8300 * time.Millisecond} {
		inBubble(t, ws2022, func(b *bench) {
			b.want(clusterIP("10.96.0.10:80", "10.244.3.1:80"))
			b.soon()
			b.host.SetFault(func(string) hnstest.Outcome { return hnstest.Fail })
			b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) { *lbs = nil })
			b.notify <- struct{}{}
			b.pass(away)
			b.host.SetFault(nil)
			b.pass(600 * time.Millisecond)
			b.expectHost(b.ideal())
		})
	}
}

func TestModifyThatLies(t *testing.T) {
	inBubble(t, ws2025, func(b *bench) {
		b.want(clusterIP("10.96.0.10:80", "10.244.3.1:80"))
		b.soon()
		b.host.SetFault(func(kind string) hnstest.Outcome {
			if kind == "modify load balancer" {
				return hnstest.LieAboutIt
			}
			return hnstest.Work
		})
		b.want(clusterIP("10.96.0.10:80", "10.244.3.2:80"))
		b.soon()
		b.want(clusterIP("10.96.0.10:80", "10.244.3.3:80"))
		b.soon()
		b.expectHost("endpoint remote 10.244.3.3 \"porthole-remote-10.244.3.3\"\nlb 10.96.0.10 80/tcp->80 10.244.3.3\n")
		if n := b.host.Count("modify load balancer"); n != 1 {
			t.Errorf("%d modifications: the lie was not remembered", n)
		}
	})
}

func TestLocalPodNewerThanTheListing(t *testing.T) {
	inBubble(t, ws2025, func(b *bench) {
		b.host.ResetCalls()
		b.edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer) { *eps = append(*eps, local("10.244.2.5")) })
		b.want(clusterIP("10.96.0.10:80", "local 10.244.2.5:80"))
		b.soon()
		b.expectCalls(
			"create load balancer: 1\nlist endpoint ids: 1\nlist load balancer ids: 1\nlist network ids: 1\nread endpoint: 1\n")
	})
}

// TestBlockedBackendDoesNotHoldAnother: while a backend waits for HNS to know its pod, the others of the service are
// served at once, also one whose endpoint has to be made first.
func TestBlockedBackendDoesNotHoldAnother(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		// a pod in the host's network: HNS never has an endpoint of it
		web := clusterIP("10.96.0.10:80", "local 10.244.1.5:80")
		b.want(web)
		b.pass(5 * time.Minute) // the wait between two attempts has grown
		b.expectState(web.Service, health.Failed, "PodUnknown")

		b.host.ResetCalls()
		b.want(clusterIP("10.96.0.10:80", "local 10.244.1.5:80", "10.244.3.1:80"))
		b.pass(time.Second)
		if dump := b.host.Dump(); b.writes() != 2 || !strings.Contains(dump, "10.96.0.10") ||
			!strings.Contains(dump, "10.244.3.1") {
			t.Errorf("after a second there were %d writes:\n%s", b.writes(), dump)
		}
	})
}

func TestOneBadServiceDoesNotStopOthers(t *testing.T) {
	inBubble(t, ws2025, func(b *bench) {
		bad := clusterIP("10.96.0.10:80", "local 10.244.2.9:80")
		b.want(bad, clusterIP("10.96.0.11:80", "10.244.3.1:80"))
		b.soon()
		b.expectHost("endpoint remote 10.244.3.1 \"porthole-remote-10.244.3.1\"\nlb 10.96.0.11 80/tcp->80 10.244.3.1\n")
		b.expectState(bad.Service, health.Failed, "PodUnknown")
		last := b.seen().passes[len(b.seen().passes)-1]
		if last.Wanted != 2 || last.Programmed != 1 || last.Failed != 1 {
			t.Errorf("pass: %+v", last)
		}
		b.host.ResetCalls()
		b.pass(5 * time.Minute)
		if n := b.host.Count("list endpoint ids"); n > 20 {
			t.Errorf("%d listings in five minutes for a pod that never comes", n)
		}
	})
}

func TestConflictIsAdoptedReplacedOrReported(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		same, stale, taken := clusterIP("10.96.0.10:80", "10.244.3.1:80"), clusterIP("10.96.0.11:80",
			"10.244.3.1:80"), clusterIP("10.96.0.12:80", "10.244.3.1:80")
		b.edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
			*eps = append(*eps, foreignRemote("10.244.3.1"), foreignRemote("10.244.3.2"))
			for i, lb := range []hns.LoadBalancer{
				served(same, ws2022, foreignRemote("10.244.3.1")), served(stale, ws2022, foreignRemote("10.244.3.2")),
				served(taken, ws2022, foreignRemote("192.0.2.1")),
			} {
				lb.ID = hns.LoadBalancerID(fmt.Sprintf("0a0a0a0a-0000-4000-8000-00000000000%d", i))
				*lbs = append(*lbs, lb)
			}
		})
		b.want(same, stale, taken)
		b.pass(2 * time.Second)
		b.expectState(same.Service, health.Programmed, "")
		b.expectState(stale.Service, health.Programmed, "")
		b.expectState(taken.Service, health.Failed, "FrontendTaken")
		if n := b.host.Count("delete load balancer"); n != 1 {
			t.Errorf("%d load balancers were deleted, wanted the stale one only", n)
		}
		// its owner takes it away… and ours of the same
		b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) { *lbs = (*lbs)[1:] })
		b.pass(65 * time.Second)
	})
}

// A node port goes from one service to another: the new owner is served.
func TestFrontendChangesHands(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		one, two := nodePort(30080, "10.244.3.1:80"), nodePort(30080, "10.244.3.2:80")
		one.Service, two.Service = "default/one", "default/two"
		b.want(one)
		b.soon()
		b.want(two)
		b.soon()
		b.expectHost("endpoint remote 10.244.3.2 \"porthole-remote-10.244.3.2\"\nlb node 30080/tcp->80 10.244.3.2\n")
		b.expectState("default/two", health.Programmed, "")
		if _, left := b.seen().status["default/one"]; left {
			t.Error("the service that is gone still has a status")
		}
	})
}

func TestCallThatHangsHoldsOneWorker(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		hung := false
		b.host.SetFault(func(kind string) hnstest.Outcome {
			if kind == "create load balancer" && !hung {
				hung = true
				return hnstest.Hang
			}
			return hnstest.Work
		})
		var all []service.Frontend
		for i := range 20 {
			all = append(all, clusterIP(vip(i), addr(i)))
		}
		b.want(all...)
		b.pass(2 * time.Second)
		if n := len(b.seen().passes); n == 0 || b.seen().passes[n-1].Programmed != 19 {
			t.Errorf("passes: %+v", b.seen().passes)
		}
		b.heal()
		b.expectHost(b.ideal())
	})
}

// A node starts: DNS works first, and the whole takes hardly longer than HNS's own calls.
func TestStartIsAsFastAsHNSWrites(t *testing.T) {
	const services, endpoints = 200, 500
	onNetwork(t, ws2022, net1, func(b *bench) {
		b.host.Latency = func(kind string) time.Duration { // ws2022-updated of the emulated host
			switch kind {
			case "create endpoint":
				return 30 * time.Millisecond
			case "create load balancer":
				return 40 * time.Millisecond
			}
			return 2 * time.Millisecond
		}
		var all []service.Frontend
		for i := range services {
			var backends []string
			for j := range 5 {
				backends = append(backends, addr((i*5+j)%endpoints))
			}

			all = append(all, clusterIP(vip(i), backends...))
		}

		name := all[len(all)-1]
		name.Service = "kube-system/kube-dns"
		all[len(all)-1] = name
		b.want(all...)
	}, func(b *bench) {
		started := time.Now()
		for b.statusOf("kube-system/kube-dns") != health.Programmed {
			b.pass(10 * time.Millisecond)
		}
		if took := time.Since(started); took > time.Second {
			t.Errorf("DNS worked after %s", took)
		}

		for {
			b.pass(100 * time.Millisecond)
			if n := len(b.seen().passes); n > 0 && b.seen().passes[n-1].Programmed == services {
				break
			}
			if time.Since(started) > 5*time.Minute {
				t.Fatal("not programmed after five minutes")
			}
		}

		floor := endpoints*30*time.Millisecond + services*40*time.Millisecond
		if took := time.Since(started); took > floor*110/100 {
			t.Errorf("start took %s, the floor is %s", took, floor)
		}
		b.expectCalls(fmt.Sprintf(
			"create endpoint: %d\ncreate load balancer: %d\nfind network: 1\nlist endpoint ids: 1\nlist load balancer ids: 1\nread version: 1\n", endpoints, services))
	})
}

func (b *bench) statusOf(name string) health.State {
	return b.seen().status[name].State
}

func TestDiff(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		b.want(clusterIP("10.96.0.10:80", "10.244.3.1:80"))
		b.soon()
		got, err := b.proxy.Diff(context.Background())
		if err != nil || got.String() != "" || got.Right != 1 {
			t.Errorf("nothing differs, but: %v %+v", err, got)
		}
		b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) { *lbs = nil })
		got, err = b.proxy.Diff(context.Background())
		if want := "create lb 10.96.0.10 80/tcp -> 10.244.3.1:80 dsr\n"; err != nil || got.String() != want {
			t.Errorf("%v %q, wanted %q", err, got, want)
		}
	})
}

// TestDiffNamesTheProblem: HNS refuses a load balancer. The difference names the service, HNS's error and the time.
func TestDiffNamesTheProblem(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		b.host.SetFault(hnstest.OneIn(1, 1, hnstest.Fail))
		began := time.Now()
		b.want(clusterIP("10.96.0.10:80", "10.244.3.1:80"))
		time.Sleep(3 * time.Second)
		b.host.SetFault(nil)
		got, err := b.proxy.Diff(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		d := got.Document()
		if len(d.Operations) == 0 || d.Equal {
			t.Fatalf("nothing differs: %+v", d)
		}
		l := d.Operations[len(d.Operations)-1]
		if l.Service != "default/10.96.0.10:80" || l.Problem == "" || l.Since.Before(began) ||
			time.Since(l.Since) < time.Second {
			t.Errorf("%+v", l)
		}
		t.Log(l)
	})
}

func TestCleanup(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		b.edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer) {
			*eps = append(*eps, local("10.244.2.5"), foreignRemote("192.0.2.1"))
		})
		b.want(clusterIP("10.96.0.10:80", "10.244.3.1:80", "local 10.244.2.5:80"))
		b.soon()
		b.stop()
		b.host.SetFault(hnstest.OneIn(3, 1, hnstest.Fail))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := Cleanup(ctx, Options{NetworkName: "porthole", Host: HostOf(b.host)}); err != nil {
			t.Error(err)
		}
		b.expectHost("endpoint local 10.244.2.5 \"\"\nendpoint remote 192.0.2.1 \"Ethernet\"\n")
	})
}

// TestCleanupWithoutNetwork: on a host without the pods' network nothing is waited for. Load balancers that are left
// of one go, others stay.
func TestCleanupWithoutNetwork(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		b.want(clusterIP("10.96.0.10:80", "10.244.3.1:80"))
		b.soon()
		b.stop()
		foreign := hns.LoadBalancerID("11111111-2222-4333-8444-555555555555")
		b.host.Edit(func(endpoints *[]hns.Endpoint, balancers *[]hns.LoadBalancer, networks *[]hns.Network) {
			other := (*balancers)[0]
			other.ID = foreign
			*balancers = append(*balancers, other)
			*endpoints, *networks = nil, nil
		})

		b.host.SetFault(hnstest.OneIn(3, 1, hnstest.Fail))
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := Cleanup(ctx, Options{NetworkName: "porthole", Host: HostOf(b.host)}); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		b.host.SetFault(nil)
		if left, err := b.host.LoadBalancerIDs(t.Context()); err != nil ||
			!slices.Equal(left, []hns.LoadBalancerID{foreign}) {
			t.Errorf("left are %v, %v", left, err)
		}
	})
}

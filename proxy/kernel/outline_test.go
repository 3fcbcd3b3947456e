package kernel

import (
	"fmt"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/proxy/service"
)

// An altered load balancer is repaired within a period, among many and with few calls. It does not matter how HNS's
// first interface lists load balancers, as long as it lists the same one in the same way.
func TestAlteredAmongMany(t *testing.T) {
	for _, c := range []struct {
		name    string
		outline func(hns.LoadBalancer) uint64
		reads   int // in the first period
	}{
		{"as expected", nil, 0},
		{"in a form of its own", func(lb hns.LoadBalancer) uint64 { return lb.Outline() + 1 }, outlinesRead},
	} {
		t.Run(c.name, func(t *testing.T) {
			onNetwork(t, ws2025, net1, func(b *bench) { b.host.Outline = c.outline }, func(b *bench) {
				var all []service.Frontend
				for i := range 200 {
					all = append(all, clusterIP(vip(i), addr(i)))
				}

				b.want(all...)
				b.pass(time.Second)
				before := b.host.Dump()
				b.host.ResetCalls()
				b.pass(30 * time.Second)
				const inTurn = 20 // 400 objects in ten minutes
				if n := b.host.Count("read load balancer"); n < c.reads || n > c.reads+inTurn {
					t.Errorf("%d documents were read, wanted about %d", n, c.reads)
				}

				b.pass(3 * time.Minute)
				b.host.ResetCalls()
				b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
					(*lbs)[150].Endpoints = (*lbs)[0].Endpoints
					(*lbs)[160].Ports = []hns.Port{{Protocol: hns.TCP, External: 80, Internal: 81}}
					(*lbs)[170].DSR = false
				})
				b.pass(30*time.Second + 100*time.Millisecond)
				b.expectHost(before)
				if n := b.writes(); n != 3 && n != 4 { // ports and flags are replaced or modified
					t.Errorf("%d writes", n)
				}
				if n := b.host.Count("read load balancer"); n > inTurn+6 {
					t.Errorf("%d documents were read", n)
				}
				if b.seen().repaired["load balancer"] != 3 {
					t.Errorf("repaired: %v", b.seen().repaired)
				}
			})
		})
	}
}

// If HNS has no call for outlines, or answers nothing or nonsense, documents are read in turn.
func TestUselessOutlines(t *testing.T) {
	for _, how := range []hnstest.Outcome{hnstest.Fail, hnstest.AnswerNothing} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			inBubble(t, ws2025, func(b *bench) {
				b.host.SetFault(func(kind string) hnstest.Outcome {
					if kind == "list load balancer outlines" {
						return how
					}
					return hnstest.Work
				})
				b.want(clusterIP("10.96.0.10:80", addr(1)), clusterIP("10.96.0.11:80", addr(2)))
				b.soon()
				before := b.host.Dump()
				b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) { (*lbs)[1].Endpoints = (*lbs)[0].Endpoints })
				b.pass(3 * time.Minute)
				b.expectHost(before)
				if b.seen().passes[len(b.seen().passes)-1].Err != nil {
					t.Error("HNS counts as away")
				}
			})
		})
	}

	n := uint64(0)
	onNetwork(t, ws2025, net1, func(b *bench) { b.host.Outline = func(hns.LoadBalancer) uint64 { n++; return n } },
		func(b *bench) {
			var all []service.Frontend
			for i := range 200 {
				all = append(all, clusterIP(vip(i), addr(i)))
			}

			b.want(all...)
			b.pass(time.Second)
			b.host.ResetCalls()
			b.pass(5 * time.Minute)
			if reads := b.host.Count("read load balancer"); reads > 10*(outlinesRead+20) || b.writes() != 0 {
				t.Errorf("%d documents were read, %d writes", reads, b.writes())
			}
		})
}

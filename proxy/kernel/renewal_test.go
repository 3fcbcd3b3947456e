package kernel

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
)

// After a reboot each load balancer of ours is replaced once, and those of others are left alone; a restart writes
// nothing.
func TestLoadBalancersOfAnEarlierBootAreReplaced(t *testing.T) {
	for _, version := range []hns.Version{ws2019, ws2022, ws2025} {
		t.Run(version.String(), func(t *testing.T) {
			reboot, renewed := false, 0
			onNetwork(t, version, net1, func(b *bench) {
				b.adjust = func(o *Options) {
					if reboot {
						o.Renewed = func() { renewed++ }
					}
				}
				foreign := served(clusterIP("10.96.0.99:80", "10.244.3.9:80"), version, foreignRemote("10.244.3.9"))
				foreign.ID = hns.LoadBalancerID(foreignID("lb"))
				b.edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
					*eps, *lbs = append(*eps, foreignRemote("10.244.3.9")), append(*lbs, foreign)
				})
			}, func(b *bench) {
				b.want(clusterIP("10.96.0.10:80", "10.244.3.5:80"), nodePort(30080, "10.244.3.5:80"),
					clusterIP("10.96.0.99:80", "10.244.3.9:80"))
				b.soon()
				host := b.host.Dump()
				if strings.Count(host, "lb ") != 3 || renewed != 0 {
					t.Fatalf("renewed %d times\n%s", renewed, host)
				}

				reboot = true
				b.host.ResetCalls()
				b.restart()
				b.soon()
				b.expectHost(host)
				if created, deleted := b.host.Count("create load balancer"),
					b.host.Count("delete load balancer"); created != 2 || deleted != 2 || b.writes() != 4 ||
					renewed != 1 {
					t.Errorf("%d created, %d deleted, %d writes, renewed %d times", created, deleted, b.writes(),
						renewed)
				}
				b.pass(5 * time.Minute)
				if b.writes() != 4 || renewed != 1 {
					t.Errorf("later: %d writes, renewed %d times", b.writes(), renewed)
				}

				reboot = false
				b.restart()
				b.pass(time.Minute)
				if b.writes() != 4 {
					t.Errorf("a restart wrote %d times", b.writes()-4)
				}
			})
		})
	}
}

// A change of backends comes with the reboot: where HNS can modify a load balancer, it is replaced nevertheless. What
// HNS refuses at first is replaced later, and only then is the renewal complete.
func TestRenewalMeetsChangesAndFailures(t *testing.T) {
	renewed := 0
	reboot := false
	onNetwork(t, ws2025, net1, func(b *bench) {
		b.adjust = func(o *Options) {
			if reboot {
				o.Renewed = func() { renewed++ }
			}
		}
	}, func(b *bench) {
		b.want(clusterIP("10.96.0.10:80", "10.244.3.5:80"), clusterIP("10.96.0.11:80", "10.244.3.5:80"))
		b.soon()
		b.stop()

		reboot = true
		b.want(clusterIP("10.96.0.10:80", "10.244.3.5:80", "10.244.3.6:80"),
			clusterIP("10.96.0.11:80", "10.244.3.5:80"))
		b.host.ResetCalls()
		failing := true
		b.host.SetFault(func(kind string) hnstest.Outcome {
			if failing && kind == "delete load balancer" {
				return hnstest.Fail
			}
			return hnstest.Work
		})
		b.start()
		b.pass(2 * time.Second)
		if n := b.host.Count("modify load balancer"); n != 0 || renewed != 0 {
			t.Errorf("%d modified, renewed %d times", n, renewed)
		}

		failing = false
		b.heal()
		if b.host.Count("create load balancer") != 2 || renewed != 1 {
			t.Errorf("%d created, renewed %d times", b.host.Count("create load balancer"), renewed)
		}
		if want := b.ideal(); b.host.Dump() != want {
			t.Errorf("host:\n%swanted:\n%s", b.host.Dump(), want)
		}
	})
}

// A host without load balancers has nothing to replace, and the renewal is complete after the first full check.
func TestRenewalOfNothing(t *testing.T) {
	renewed := 0
	onNetwork(t, ws2022, net1, func(b *bench) {
		b.adjust = func(o *Options) { o.Renewed = func() { renewed++ } }
		b.edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer) {
			*eps = append(*eps, hns.Endpoint{ID: "706f7274-6570-8001-8001-000000000009", Network: net1.ID,
				Addrs: []netip.Addr{netip.MustParseAddr("10.244.2.9")}})
		})
	}, func(b *bench) {
		b.soon()
		if renewed != 1 {
			t.Errorf("renewed %d times", renewed)
		}
		b.want(clusterIP("10.96.0.10:80", "10.244.3.5:80"))
		b.pass(time.Minute)
		if b.host.Count("delete load balancer") != 0 || renewed != 1 {
			t.Errorf("%d deleted, renewed %d times", b.host.Count("delete load balancer"), renewed)
		}
	})
}

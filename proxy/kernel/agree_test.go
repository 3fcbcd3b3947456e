package kernel

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

// TestDiffListsWhatTheLoopDeletes: HNS has random objects, ours and those of others, and random services are wanted.
// What the loop deletes is exactly what Diff listed before.
func TestDiffListsWhatTheLoopDeletes(t *testing.T) {
	deletions := 0
	for seed := range uint64(150) {
		for _, network := range []hns.Network{net1, overlay} {
			t.Run(fmt.Sprintf("%s %d", network.Type, seed), func(t *testing.T) {
				chance := rand.New(rand.NewPCG(seed, 0))
				blocked := func(kind string) hnstest.Outcome { // nothing is written before Diff has answered
					for _, verb := range []string{"create", "modify", "delete"} {
						if strings.HasPrefix(kind, verb) {
							return hnstest.Fail
						}
					}
					return hnstest.Work
				}
				onNetwork(t, []hns.Version{ws2019, ws2022, ws2025}[seed%3], network, func(b *bench) {
					b.host.SetFault(blocked)
					randomHost(b, chance)
					b.want(randomServices(chance)...)
				}, func(b *bench) {
					b.soon()
					diff, err := b.proxy.Diff(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					listed := deletedBy(diff.Ops)
					before := b.ids()
					b.heal()
					after := b.ids()

					var deleted []string
					for id := range before {
						if !after[id] {
							deleted = append(deleted, id)
						}
					}
					slices.Sort(deleted)
					if d := cmp.Diff(listed, deleted,
						cmp.Transformer("nil", func(s []string) []string {
							return append([]string{}, s...)
						})); d != "" {
						t.Errorf("deleted objects (-listed by Diff +deleted by the loop):\n%s", d)
					}
					deletions += len(deleted)
				})
			})
		}
	}
	if deletions < 500 {
		t.Errorf("only %d objects were deleted: the test shows little", deletions)
	}
}

// deletedBy returns the ids that HNS does not have any more after the operations.
func deletedBy(ops []balance.Op) []string {
	gone := map[string]bool{}
	for _, op := range ops {
		switch op.Verb {
		case balance.DeleteEndpoint:
			gone[string(op.Endpoint)] = true
		case balance.DeleteLB:
			gone[string(op.Old)] = true
		case balance.ReplaceLB:
			if op.Old != op.LB.ID {
				gone[string(op.Old)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(gone))
}

// ids returns the ids of all objects of the host.
func (b *bench) ids() map[string]bool {
	all := map[string]bool{}
	b.edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
		for _, e := range *eps {
			all[string(e.ID)] = true
		}
		for _, lb := range *lbs {
			all[string(lb.ID)] = true
		}
	})
	return all
}

// randomHost fills HNS with endpoints and load balancers, some of them created by others and some for frontends that
// randomServices may want.
func randomHost(b *bench, chance *rand.Rand) {
	var endpoints []hns.Endpoint
	b.host.Edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer, networks *[]hns.Network) {
		facts := balance.Facts{Network: (*networks)[0], Version: b.host.HNS, DSR: true}
		endpoints = append(endpoints, local("10.244.2.5"))
		for i := range 12 {
			address := at(addr(i)).Addr
			switch chance.IntN(4) {
			case 0:
				endpoints = append(endpoints, foreignRemote(address.String()))
			case 1, 2:
				endpoints = append(endpoints, remote(address, &facts))
			}
		}
		*eps = endpoints

		for i := range 16 {
			f := clusterIP(vip(i), "10.244.3.1:80")
			if i%4 == 3 {
				f = nodePort(uint16(30000+i), "10.244.3.1:80")
			}
			if chance.IntN(2) == 0 {
				continue
			}
			lb := served(f, b.host.HNS)
			for _, j := range chance.Perm(len(endpoints))[:1+chance.IntN(3)%len(endpoints)] {
				lb.Endpoints = append(lb.Endpoints, endpoints[j].ID)
			}
			if chance.IntN(4) == 0 {
				lb.ID = hns.LoadBalancerID(foreignID(vip(i)))
			}
			*lbs = append(*lbs, lb)
		}
	})
}

// TestReleasedFrontendOfAnotherProxy: the service of an adopted load balancer is deleted while HNS refuses to delete
// it. Diff lists the deletion, as the loop keeps trying.
func TestReleasedFrontendOfAnotherProxy(t *testing.T) {
	inBubble(t, ws2022, func(b *bench) {
		web := clusterIP("10.96.0.10:80", "10.244.3.1:80")
		b.edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
			*eps = append(*eps, foreignRemote("10.244.3.1"))
			lb := served(web, ws2022, foreignRemote("10.244.3.1"))
			lb.ID = hns.LoadBalancerID(foreignID("web"))
			*lbs = append(*lbs, lb)
		})
		b.pass(31 * time.Second)
		b.want(web)
		b.soon()
		b.host.SetFault(hnstest.OneIn(1, 1, hnstest.Fail))
		b.want([]service.Frontend{}...)
		b.soon()
		b.host.SetFault(nil)

		diff, err := b.proxy.Diff(context.Background())
		if want := "delete lb 10.96.0.10 80/tcp\n"; err != nil || diff.String() != want {
			t.Errorf("%v %q, want %q", err, diff.String(), want)
		}
		b.heal()
		b.expectHost("endpoint remote 10.244.3.1 \"Ethernet\"\n")
	})
}

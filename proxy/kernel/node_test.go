package kernel

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/proxy/health"
)

// The node's addresses come late, and change. Node ports follow them; nothing else changes.
func TestNodeAddressesAreFollowed(t *testing.T) {
	var addrs atomic.Pointer[[]netip.Addr]
	addrs.Store(&[]netip.Addr{})
	var moved chan struct{} // of the bubble
	move := func(to ...string) {
		list := []netip.Addr{}
		for _, a := range to {
			list = append(list, netip.MustParseAddr(a))
		}

		addrs.Store(&list)
		moved <- struct{}{}
	}
	onNetwork(t, ws2022, net1, func(b *bench) {
		moved = make(chan struct{}, 1)
		b.adjust = func(o *Options) {
			o.NoNodeAccess, o.NodeChanged = false, moved
			o.NodeAddrs = func() []netip.Addr { return *addrs.Load() }
		}
	}, func(b *bench) {
		b.want(nodePort(30080, "10.244.3.5:80"))
		b.soon()
		b.expectHost("") // the addresses may come any moment

		b.pass(nodePatience)
		const plain = "endpoint remote 10.244.3.5 \"porthole-remote-10.244.3.5\"\nlb node 30080/tcp->80 10.244.3.5\n"
		const both = "endpoint remote 10.244.3.5 \"porthole-remote-10.244.3.5\"\nlb 192.0.2.7 30080/tcp->80 10.244.3.5\nlb node 30080/tcp->80 10.244.3.5\n"
		b.expectHost(plain)

		b.host.ResetCalls()
		move("192.0.2.7", "fd00::7") // this service has no IPv6
		b.soon()
		b.expectHost(both)
		b.expectCalls("create load balancer: 1\n")
		b.expectState(nodePort(30080).Service, health.Programmed, "")

		move("192.0.2.8")
		b.soon()
		b.expectHost(strings.ReplaceAll(both, "192.0.2.7", "192.0.2.8"))
		b.expectCalls("create load balancer: 1\ndelete load balancer: 1\n")

		b.restart()
		b.soon()
		if n := b.writes(); n != 0 {
			t.Errorf("%d writes after a restart", n)
		}
	})
}

// The address comes while the first survey reads objects. It counts at once, not only at the next survey.
func TestNodeAddressComesDuringTheFirstSurvey(t *testing.T) {
	var known atomic.Bool
	onNetwork(t, ws2022, net1, func(b *bench) {
		moved := make(chan struct{}, 1)
		b.adjust = func(o *Options) {
			o.NoNodeAccess, o.NodeChanged = false, moved
			o.NodeAddrs = func() []netip.Addr {
				if known.Load() {
					return []netip.Addr{netip.MustParseAddr("192.0.2.7")}
				}
				return nil
			}
		}
		b.edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer) { *eps = append(*eps, local("10.244.2.5")) })
		b.host.SetFault(func(kind string) hnstest.Outcome {
			if kind == "read endpoint" && known.CompareAndSwap(false, true) {
				moved <- struct{}{}
				time.Sleep(time.Second) // of the bubble: the proxy hears of it meanwhile
			}
			return hnstest.Work
		})
	}, func(b *bench) {
		b.want(nodePort(30080, "10.244.3.5:80"))

		b.pass(3 * time.Second)
		if !known.Load() || !strings.Contains(b.host.Dump(), "lb 192.0.2.7 30080/tcp") {
			t.Errorf("programs of the node do not reach the node port:\n%s", b.host.Dump())
		}
	})
}

// After a restart the services, and the management address in HNS, may be known before the node's own addresses. Load balancers for
// the node's addresses stay meanwhile.
func TestRestartBeforeTheNodeIsKnown(t *testing.T) {
	for _, management := range []string{"", "192.0.2.7", "192.0.2.99"} {
		t.Run("management "+management, func(t *testing.T) {
			network := net1
			network.Management, _ = netip.ParseAddr(management)
			addrs := []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")}
			var known atomic.Bool
			var moved chan struct{} // of the bubble
			known.Store(true)
			onNetwork(t, ws2022, network, func(b *bench) {
				moved = make(chan struct{}, 1)
				b.adjust = func(o *Options) {
					o.NoNodeAccess, o.NodeChanged = false, moved
					o.NodeAddrs = func() []netip.Addr {
						if known.Load() {
							return addrs
						}
						return nil
					}
				}
			}, func(b *bench) {
				b.want(nodePort(30080, "10.244.3.5:80"))
				b.pass(3 * time.Second)
				if dump := b.host.Dump(); strings.Count(dump, "lb 192.0.2.") != 2 {
					t.Fatalf("not served at both addresses:\n%s", dump)
				}

				b.host.ResetCalls()
				known.Store(false)
				b.restart()
				b.pass(nodePatience / 2)
				known.Store(true)
				moved <- struct{}{}
				b.pass(3 * time.Second)
				if n := b.writes(); n != 0 {
					t.Errorf("%d writes after a restart\n%s", n, b.host.Dump())
				}
			})
		})
	}
}

// A program of the host has the port, and HNS refuses the load balancer for programs of the node. The service counts as programmed,
// with a problem, and HNS is asked again ever less often.
func TestNodePortFromNodeIsOptional(t *testing.T) {
	onNetwork(t, ws2022, net1, func(b *bench) {
		b.adjust = func(o *Options) {
			o.NoNodeAccess = false
			o.NodeAddrs = func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("192.0.2.7")} }
		}
		b.host.Refuse = func(kind string, _ *hns.Endpoint, lb *hns.LoadBalancer) error {
			if lb != nil && len(lb.VIPs) > 0 && lb.VIPs[0].String() == "192.0.2.7" {
				return &hns.Error{Doing: kind, Class: hns.Exists, Code: 0x803b0013, Err: errRefused}
			}

			return nil
		}
	}, func(b *bench) {
		f := nodePort(30080, "10.244.3.5:80")
		b.want(f)
		b.pass(30 * time.Second)
		b.expectState(f.Service, health.Programmed, "")
		if problems := b.status[f.Service].Problems; len(problems) != 1 || problems[0].Reason != "NodePortFromNode" {
			t.Errorf("problems: %+v", problems)
		}
		if last := b.passes[len(b.passes)-1]; last.Failed != 0 || last.Wanted != 1 {
			t.Errorf("%+v", last)
		}

		b.host.ResetCalls()
		b.pass(30 * time.Minute)
		if n := b.host.Count("create load balancer"); n > 6 {
			t.Errorf("%d attempts in half an hour", n)
		}
		if n := b.host.Count("list load balancer ids"); n > 67 {
			t.Errorf("%d listings in half an hour", n)
		}

		b.host.Refuse = nil
		b.pass(6 * time.Minute)
		if !strings.Contains(b.host.Dump(), "lb 192.0.2.7 ") || len(b.status[f.Service].Problems) != 0 {
			t.Errorf("not served once the port is free:\n%s%+v", b.host.Dump(), b.status[f.Service].Problems)
		}
	})
}

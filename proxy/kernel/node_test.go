package kernel

import (
	"fmt"
	"net/netip"
	"slices"
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
			o.NodeAccess, o.NodeChanged = true, moved
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

// The address comes while the first full check reads objects. It counts at once, not only at the next full check.
func TestNodeAddressComesDuringTheFirstFullCheck(t *testing.T) {
	var known atomic.Bool
	onNetwork(t, ws2022, net1, func(b *bench) {
		moved := make(chan struct{}, 1)
		b.adjust = func(o *Options) {
			o.NodeAccess, o.NodeChanged = true, moved
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

// After a restart the services, and the management address in HNS, may be known before the node's own addresses. Load
// balancers for the node's addresses stay meanwhile.
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
					o.NodeAccess, o.NodeChanged = true, moved
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

// A program of the host has the port, and HNS refuses the load balancer for programs of the node. The service counts
// as programmed, with a problem, and HNS is not asked again until the service releases the port.
func TestNodeAccessIsOptional(t *testing.T) {
	onNetwork(t, ws2022, net1, func(b *bench) {
		withNodeAccess(b)
		b.host.Refuse = func(kind string, _ *hns.Endpoint, lb *hns.LoadBalancer) error {
			if lb != nil && len(lb.VIPs) > 0 && lb.VIPs[0] == nodeAddr {
				return &hns.Error{Doing: kind, Class: hns.Exists, Code: 0x803b0013, Err: errRefused}
			}

			return nil
		}
	}, func(b *bench) {
		f := nodePort(30080, "10.244.3.5:80")
		b.want(f)
		b.pass(30 * time.Second)
		b.expectState(f.Service, health.Programmed, "")
		b.expectProblems(f.Service, reasonFromNode)
		if last := b.seen().passes[len(b.seen().passes)-1]; last.Failed != 0 || last.Wanted != 1 {
			t.Errorf("%+v", last)
		}

		b.host.ResetCalls()
		b.pass(30 * time.Minute)
		if n := b.host.Count("create load balancer"); n > 0 {
			t.Errorf("%d attempts in half an hour", n)
		}
		if n := b.host.Count("list load balancer ids"); n > 67 {
			t.Errorf("%d listings in half an hour", n)
		}

		b.host.Refuse = nil
		b.remove(f.Service)
		b.soon()
		b.want(f)
		b.soon()
		if !strings.Contains(b.host.Dump(), "lb 192.0.2.7 ") {
			t.Errorf("not served once the port is free:\n%s", b.host.Dump())
		}
		b.expectProblems(f.Service)
	})
}

var nodeAddr = netip.MustParseAddr("192.0.2.7")

// withNodeAccess turns node access on, at nodeAddr.
func withNodeAccess(b *bench) {
	b.adjust = func(o *Options) {
		o.NodeAccess = true
		o.NodeAddrs = func() []netip.Addr { return []netip.Addr{nodeAddr} }
	}
}

// A service asks for what another one has for programs of the node, and gets it. When it goes, the other one has it
// back.
func TestNodeAccessComesBack(t *testing.T) {
	onNetwork(t, ws2022, net1, withNodeAccess, func(b *bench) {
		port := nodePort(30080, "10.244.3.5:80")
		b.want(port)
		b.soon()
		const alone = `
endpoint remote 10.244.3.5 "porthole-remote-10.244.3.5"
lb 192.0.2.7 30080/tcp->80 10.244.3.5
lb node 30080/tcp->80 10.244.3.5
`
		b.expectHost(alone)

		asked := externalIP("192.0.2.7:30080", "10.244.3.6:80")
		b.want(port, asked)
		b.soon()
		b.expectHost(`
endpoint remote 10.244.3.5 "porthole-remote-10.244.3.5"
endpoint remote 10.244.3.6 "porthole-remote-10.244.3.6"
lb 192.0.2.7 30080/tcp->80 10.244.3.6
lb node 30080/tcp->80 10.244.3.5
`)

		b.remove(asked.Service)
		b.pass(time.Minute) // the endpoint that nothing uses goes later
		b.expectHost(alone)
		b.expectState(port.Service, health.Programmed, "")
	})
}

// expectProblems checks the reasons of a service's problems.
func (b *bench) expectProblems(name string, reasons ...string) {
	b.t.Helper()
	var got []string
	for _, p := range b.seen().status[name].Problems {
		got = append(got, p.Reason)
	}
	if !slices.Equal(got, reasons) {
		b.t.Errorf("problems of %s: %v, wanted %v", name, got, reasons)
	}
}

// Without the option nothing is made for programs of the node: one load balancer per node port, as upstream's proxy
// has it.
func TestNoNodeAccessByDefault(t *testing.T) {
	onNetwork(t, ws2022, net1, func(b *bench) {
		b.adjust = func(o *Options) { o.NodeAddrs = func() []netip.Addr { return []netip.Addr{nodeAddr} } }
	}, func(b *bench) {
		b.want(nodePort(30080, "10.244.3.5:80"), externalIP("192.0.2.99:80", "10.244.3.5:80"))
		b.soon()
		b.expectHost(`
endpoint remote 10.244.3.5 "porthole-remote-10.244.3.5"
lb 192.0.2.99 80/tcp->80 10.244.3.5
lb node 30080/tcp->80 10.244.3.5
`)
		b.expectFlags(netip.MustParseAddr("192.0.2.99"), hns.PortVIPExternal)
	})
}

func externalIP(vip string, backends ...string) service.Frontend {
	f := clusterIP(vip, backends...)
	f.Kind = service.ExternalIP
	return f
}

// expectFlags checks the port flags of the load balancer at an address.
func (b *bench) expectFlags(vip netip.Addr, want hns.PortFlags) {
	b.t.Helper()
	b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
		for _, lb := range *lbs {
			if slices.Contains(lb.VIPs, vip) && lb.Ports[0].Flags != want {
				b.t.Errorf("%v has flags %d, wanted %d", vip, lb.Ports[0].Flags, want)
			}
		}
	})
}

// The host takes each of its ports for one load balancer, whatever its address, and calls overlap. All node ports are
// served nevertheless, and what was added for programs of the node is given up, of external addresses with a common
// port as well.
func TestNodeAccessNeverCostsTheNodePort(t *testing.T) {
	onNetwork(t, ws2022, net1, func(b *bench) {
		withNodeAccess(b)
		hnstest.OneOwnerPerPort(b.host)
	}, func(b *bench) {
		var all []service.Frontend
		for i := range 20 {
			f := nodePort(uint16(30080+i), "10.244.3.5:80")
			f.Service = fmt.Sprintf("default/web-%02d", i)
			all = append(all, f)
		}
		first, second := externalIP("192.0.2.98:80", "10.244.3.5:80"), externalIP("192.0.2.99:80", "10.244.3.5:80")
		b.want(append(all, first, second)...)
		b.pass(2 * time.Second)

		want :=
			"endpoint remote 10.244.3.5 \"porthole-remote-10.244.3.5\"\nlb 192.0.2.98 80/tcp->80 10.244.3.5\nlb 192.0.2.99 80/tcp->80 10.244.3.5\n"
		for i, f := range all {
			want += fmt.Sprintf("lb node %d/tcp->80 10.244.3.5\n", 30080+i)
			b.expectState(f.Service, health.Programmed, "")
			b.expectProblems(f.Service, reasonFromNode)
		}
		b.expectHost(want)
		b.expectState(first.Service, health.Programmed, "")
		b.expectState(second.Service, health.Programmed, "")
		b.heal()
		b.expectHost(want)
	})
}

// The host has a load balancer for node access from an earlier run, and the node port itself is new and refused
// because of it: the node port gets the port.
func TestNodeAccessGivesWay(t *testing.T) {
	onNetwork(t, ws2022, net1, func(b *bench) {
		withNodeAccess(b)
		hnstest.OneOwnerPerPort(b.host)
		access := served(nodePort(30080, "10.244.3.5:80"), ws2022)
		key := nodePort(30080).Key
		key.VIP = nodeAddr
		access.ID, access.VIPs = balance.LoadBalancerID(key), []netip.Addr{nodeAddr}
		facts := factsOf(ws2022)
		e := remote(netip.MustParseAddr("10.244.3.5"), &facts)
		access.Endpoints = []hns.EndpointID{e.ID}

		b.edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
			*eps, *lbs = append(*eps, e), append(*lbs, access)
		})
	}, func(b *bench) {
		f := nodePort(30080, "10.244.3.5:80")
		b.want(f)
		b.pass(3 * time.Second)
		b.expectHost(`
endpoint remote 10.244.3.5 "porthole-remote-10.244.3.5"
lb node 30080/tcp->80 10.244.3.5
`)
		b.expectState(f.Service, health.Programmed, "")
		b.expectProblems(f.Service, reasonFromNode)
	})
}

package bgp

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/routers"
	"porthole.dev/porthole/internal/testkit/wait"
)

// fast are times at which a test does not wait long.
const fast = "holdTime: 9s\nkeepalive: 3s\nconnectRetry: 2s\n"

// routerPeer returns the configuration of a node of one AS whose only peer is the router.
func routerPeer(as, router int, more string) string {
	return fmt.Sprintf("asNumber: %d\n%speers:\n- {peerIP: %s, asNumber: %d%s}\n", as, fast, torAddr, router, more)
}

func own(i int) int { return 65001 + i }
func same(int) int  { return 65001 }
func inner(int) int { return 64500 }

// TestRouters meets FRR and BIRD as routers of other ASes and of ours, and as route reflectors.
// Row 1.47.
func TestRouters(t *testing.T) {
	for _, c := range []struct {
		name   string
		router func(*testing.T, *rack)
		node   func(int) string
		via    string // next hop of all routes; empty: the nodes themselves
	}{
		{"FRR, one AS for each node", func(t *testing.T, r *rack) { frr(t, r.tor.Path, frrRouter(64500, own), false) },
			func(i int) string { return routerPeer(own(i), 64500, "") }, ""},
		{"FRR, one AS for all nodes, as-override",
			func(t *testing.T, r *rack) { frr(t, r.tor.Path, frrRouter(64500, same, "as-override"), false) },
			func(i int) string { return routerPeer(65001, 64500, "") }, ""},
		{"FRR, one AS for all nodes, allowOwnAS",
			func(t *testing.T, r *rack) { frr(t, r.tor.Path, frrRouter(64500, same), false) },
			func(i int) string { return routerPeer(65001, 64500, ", allowOwnAS: 1") }, ""},
		{"FRR, route reflector", func(t *testing.T, r *rack) {
			frr(t, r.tor.Path, frrRouter(64500, inner, "route-reflector-client"), false)
		}, func(i int) string { return routerPeer(64500, 64500, "") }, ""},
		{"FRR, one AS for each node, next-hop-self", func(t *testing.T, r *rack) {
			frr(t, r.tor.Path, frrRouter(64500, own, "next-hop-self force"), false)
		}, func(i int) string { return routerPeer(own(i), 64500, "") }, torAddr},
		{"BIRD, one AS for each node",
			func(t *testing.T, r *rack) { routers.BIRD(t, r.tor.Path, birdRouter(64500, own, "")) },
			func(i int) string { return routerPeer(own(i), 64500, "") }, ""},
		{"BIRD, route reflector",
			func(t *testing.T, r *rack) { routers.BIRD(t, r.tor.Path, birdRouter(64500, inner, "rr client;")) },
			func(i int) string { return routerPeer(64500, 64500, "") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRack(t)
			c.router(t, r)
			begin := time.Now()
			r.start(c.node)
			r.complete(20 * time.Second)
			t.Logf("all routes after %v", time.Since(begin).Round(time.Millisecond))

			for i := range hosts {
				want := direct(i)
				if c.via != "" {
					for j := range want {
						dst, _, _ := strings.Cut(want[j], " ")
						want[j] = dst + " via " + c.via
					}
				}
				r.wantRoutes(i, 5*time.Second, want...)
			}
			r.reach()
			wait.NoError(t, 5*time.Second, "the router's routes", func() error {
				has := kernelRoutes(t, r.tor)
				for _, h := range hosts {
					if !strings.Contains(has, h.pods+" via "+h.addr) {
						return fmt.Errorf("no route to %s through %s:\n%s", h.pods, h.addr, has)
					}
				}
				return nil
			})
		})
	}
}

// birdRouter returns the configuration of a router whose neighbours are the nodes.
func birdRouter(as int, asOf func(int) int, each string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router id %s;\nlog stderr all;\nprotocol device { scan time 5; }\nprotocol direct { ipv4; }\n",
		torAddr)
	b.WriteString(
		"protocol kernel { ipv4 { export filter { if source = RTS_BGP then accept; reject; }; import none; }; }\n")
	for i, h := range hosts {
		fmt.Fprintf(&b,
			"protocol bgp n%d { local %s as %d; neighbor %s as %d; connect retry time 1; hold time 9; graceful restart on; %s\n"+
				"ipv4 { import all; export where source = RTS_BGP; next hop keep; }; }\n", i, torAddr, as, h.addr,
			asOf(i),
			each)
	}
	return b.String()
}

// TestFullMesh needs no router: every node is the peer of every other one.
func TestFullMesh(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	r.start(func(int) string { return fast + "fullMesh: true\n" })
	r.complete(20 * time.Second)
	for i := range hosts {
		r.wantRoutes(i, 5*time.Second, direct(i)...)
	}
	r.reach()
}

// TestForeignRoutes: a router announces its default route, a range of its own, a part of the pods' range that is no
// node's, and the nodes' segment. A node learns what is inside the pods' range, and what its configuration names; it
// never replaces a route of somebody else.
func TestForeignRoutes(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	config := strings.Replace(frrRouter(64500, own, "default-originate"), " timers bgp",
		" no bgp network import-check\n network 192.168.77.0/24\n network 192.168.78.0/24\n"+
			" network 10.244.99.0/24\n network 10.99.0.0/24\n timers bgp", 1)
	frr(t, r.tor.Path, config, false)
	accept := func(ranges string) func(int) string {
		return func(i int) string { return "acceptPrefixes: " + ranges + "\n" + routerPeer(own(i), 64500, "") }
	}
	r.start(accept("[]"))
	inside := "10.244.99.0/24 via " + torAddr
	for i := range hosts {
		r.wantRoutes(i, 20*time.Second, append(direct(i), inside)...)
	}

	r.in(r.host[1], func() error { return netlink.RouteDel(&netlink.Route{Dst: mustNet("0.0.0.0/0")}) })
	r.in(r.host[0], func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: mustNet("192.168.77.0/24"), Gw: net.ParseIP("10.99.0.12")})
	})
	for i := range 2 {
		r.agents[i].configure(accept("[192.168.76.0/22, 10.99.0.0/16, 0.0.0.0/0]")(i))
	}
	foreign := kernelRoutes(t, r.host[0])
	r.wantRoutes(0, 20*time.Second, append(direct(0), inside, "192.168.78.0/24 via "+torAddr)...)
	r.wantRoutes(1, 20*time.Second,
		append([]string{"0.0.0.0/0 via " + torAddr},
			append(direct(1), inside, "192.168.77.0/24 via "+torAddr, "192.168.78.0/24 via "+torAddr)...)...)
	for line := range strings.Lines(foreign) {
		if has := kernelRoutes(t, r.host[0]); !strings.Contains(has, line) {
			t.Errorf("%q is gone:\n%s", line, has)
		}
	}
	refused := fmt.Sprint(r.agents[0].status().Routes)
	for _, want := range []string{"somebody else's route to 0.0.0.0/0 through 10.99.0.1",
		"somebody else's route to 192.168.77.0/24 through 10.99.0.12",
		"announces 10.99.0.0/24, which this node reaches itself"} {
		if !strings.Contains(refused, want) {
			t.Errorf("the status does not say %q: %s", want, refused)
		}
	}
}

// TestSecondCard: what a second network card of a node reaches by itself is learnt neither as a whole nor in part, not
// even if the card gets its address after the route was learnt.
func TestSecondCard(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	lan := netspace.New(t, "lan")
	r.host[0].Connect("eth1", lan, "eth0")
	r.host[0].Address("eth1", "192.168.50.1/24")
	lan.Address("eth0", "192.168.50.200/24", "192.168.60.200/24")
	frr(t, r.tor.Path, strings.Replace(frrRouter(64500, own), " timers bgp",
		" no bgp network import-check\n network 192.168.50.0/24\n network 192.168.50.128/25\n"+
			" network 192.168.60.0/24\n timers bgp", 1), false)
	r.start(func(i int) string { return "acceptPrefixes: [192.168.0.0/16]\n" + routerPeer(own(i), 64500, "") })
	exchange := func(from, to string) {
		t.Helper()
		if err := netspace.Exchange(t, netspace.End{Netns: r.host[0].Path, Addr: from},
			netspace.End{Netns: lan.Path, Addr: to}, 100); err != nil {
			t.Errorf("from %s to %s on the second card: %v", from, to, err)
		}
	}

	r.wantRoutes(0, 20*time.Second, append(direct(0), "192.168.60.0/24 via "+torAddr)...)
	exchange("192.168.50.1", "192.168.50.200")
	r.host[0].Address("eth1", "192.168.60.1/24")
	r.wantRoutes(0, 5*time.Second, direct(0)...)
	exchange("192.168.60.1", "192.168.60.200")

	has, said := kernelRoutes(t, r.host[0]), fmt.Sprint(r.agents[0].status().Routes)
	for _, segment := range []string{"192.168.50.0/24", "192.168.60.0/24"} {
		if !strings.Contains(has, segment+" dev eth1 proto kernel scope link") {
			t.Errorf("the connected route %s is gone:\n%s", segment, has)
		}
		if want := "announces " + segment + ", which this node reaches itself"; !strings.Contains(said, want) {
			t.Errorf("the status does not say %q: %s", want, said)
		}
	}
}

package bgp

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
func TestRouters(t *testing.T) {
	for _, c := range []struct {
		name   string
		router func(*testing.T, *rack)
		node   func(int) string
		via    string // next hop of all routes; empty: the nodes themselves
	}{
		{"FRR, one AS for each node", func(t *testing.T, r *rack) { frr(t, r.tor.Path, frrRouter(64500, own), false) },
			func(i int) string { return routerPeer(own(i), 64500, "") }, ""},
		{"FRR, one AS for all nodes, as-override", func(t *testing.T, r *rack) { frr(t, r.tor.Path, frrRouter(64500, same, "as-override"), false) },
			func(i int) string { return routerPeer(65001, 64500, "") }, ""},
		{"FRR, one AS for all nodes, allowOwnAS", func(t *testing.T, r *rack) { frr(t, r.tor.Path, frrRouter(64500, same), false) },
			func(i int) string { return routerPeer(65001, 64500, ", allowOwnAS: 1") }, ""},
		{"FRR, route reflector", func(t *testing.T, r *rack) {
			frr(t, r.tor.Path, frrRouter(64500, inner, "route-reflector-client"), false)
		}, func(i int) string { return routerPeer(64500, 64500, "") }, ""},
		{"FRR, one AS for each node, next-hop-self", func(t *testing.T, r *rack) {
			frr(t, r.tor.Path, frrRouter(64500, own, "next-hop-self force"), false)
		}, func(i int) string { return routerPeer(own(i), 64500, "") }, torAddr},
		{"BIRD, one AS for each node", func(t *testing.T, r *rack) { bird(t, r.tor.Path, birdRouter(64500, own, "")) },
			func(i int) string { return routerPeer(own(i), 64500, "") }, ""},
		{"BIRD, route reflector", func(t *testing.T, r *rack) { bird(t, r.tor.Path, birdRouter(64500, inner, "rr client;")) },
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
	fmt.Fprintf(&b, "router id %s;\nlog stderr all;\nprotocol device { scan time 5; }\nprotocol direct { ipv4; }\n", torAddr)
	b.WriteString("protocol kernel { ipv4 { export filter { if source = RTS_BGP then accept; reject; }; import none; }; }\n")
	for i, h := range hosts {
		fmt.Fprintf(&b, "protocol bgp n%d { local %s as %d; neighbor %s as %d; connect retry time 1; hold time 9; graceful restart on; %s\n"+
			"ipv4 { import all; export where source = RTS_BGP; next hop keep; }; }\n", i, torAddr, as, h.addr, asOf(i), each)
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

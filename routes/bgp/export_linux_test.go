package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/routers"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestOwnRangeOnly: a node of its own AS passes nothing of what it learns to its peers. With all nodes in one AS that
// would not be seen, because BGP does not pass such routes on by itself (RFC 4271, 9.2).
func TestOwnRangeOnly(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	r.start(func(int) string { return fast + "fullMesh: true\n" })
	list := nodes()
	for i := range list {
		list[i].Annotations = map[string]string{AnnotationAS: strconv.Itoa(own(i))}
	}
	for _, a := range r.agents {
		a.stop()
		a.nodes(list)
		a.start()
	}

	r.complete(20 * time.Second)
	for _, a := range r.agents {
		for _, p := range a.status().Peers {
			if p.Learnt != 1 {
				t.Errorf("%s has learnt %d paths of %s, want its own range only", a.path, p.Learnt, p.Address)
			}
		}
	}
}

// TestReflector: a node with clients passes what it learns inside its AS to them, so that they need no other peer.
func TestReflector(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	client := "- {peerIP: %s, asNumber: 64512, routeReflectorClient: true}\n"
	r.start(func(i int) string {
		if i == 0 {
			return fast + "peers:\n" + fmt.Sprintf(client+client, hosts[1].addr, hosts[2].addr)
		}
		return fast + fmt.Sprintf("peers:\n- {peerIP: %s, asNumber: 64512}\n", hosts[0].addr)
	})
	r.complete(20 * time.Second)
	for i := range hosts {
		r.wantRoutes(i, 5*time.Second, direct(i)...)
	}
}

// TestTwoPeers: a node tells neither of two routers of other ASes, FRR and BIRD, what the other one has told it: it
// must not carry their packets. That holds for the sessions of a speaker that was started again, with another AS, too.
func TestTwoPeers(t *testing.T) {
	t.Parallel()
	const ofFRR, ofBIRD, second = "10.244.99.0/24", "10.244.98.0/24", "10.99.0.2"
	r := newRack(t)
	other := r.secondRouter(second)
	one := frr(t, r.tor.Path,
		fmt.Sprintf(
			"router bgp 64500\n bgp router-id %[1]s\n no bgp ebgp-requires-policy\n no bgp network import-check\n timers bgp 3 9\n"+
				" network %[2]s\n neighbor %[3]s remote-as external\n neighbor %[3]s timers connect 1\n", torAddr,
			ofFRR,
			hosts[0].addr), false)
	two := routers.BIRD(t, other.Path,
		fmt.Sprintf(
			"router id %[1]s;\nlog stderr all;\nprotocol device {}\nprotocol static { ipv4; route %[2]s blackhole; }\n"+
				"protocol bgp n { local %[1]s as 64600; neighbor %[3]s external; connect retry time 1; error wait time 1, 2; hold time 9; graceful restart on; ipv4 { import all; export all; }; }\n", second, ofBIRD, hosts[0].addr))
	list := nodes()[:1]
	a := newAgent(t, r.host[0].Path,
		agentNode{Name: hosts[0].name, Addr: netip.MustParseAddr(hosts[0].addr), Cluster: cluster},
		fast+fmt.Sprintf("peers:\n- {peerIP: %s, asNumber: 64500}\n- {peerIP: %s, asNumber: 64600}\n", torAddr, second))
	a.nodes(list)
	a.start()

	for i, as := range []string{"64512", "65100"} { // the first is the default
		if i > 0 {
			list = slices.Clone(list)
			list[0].Annotations = map[string]string{AnnotationAS: as}
			a.nodes(list)
		}
		for _, router := range []*routers.Router{one, two} {
			wait.NoError(t, 20*time.Second, "the session of AS "+as, func() error {
				if has := bgpTable(router); !strings.Contains(has, as) {
					return fmt.Errorf("status %+v; the router has %s", a.status(), has)
				}
				return nil
			})
		}
		r.wantRoutes(0, 20*time.Second, ofBIRD+" via "+second, ofFRR+" via "+torAddr)

		// What is announced now follows everything that the node passes on.
		mark := fmt.Sprintf("10.244.%d.0/24", 10+i)
		list = slices.Clone(list)
		list[0].PodCIDRs = []netip.Prefix{netip.MustParsePrefix(mark)}
		a.nodes(list)
		for router, strange := range map[*routers.Router]string{one: ofBIRD, two: ofFRR} {
			var has string
			wait.NoError(t, 10*time.Second, mark, func() error {
				if has = bgpTable(router); !strings.Contains(has, mark) {
					return fmt.Errorf("status %+v; the router has %s", a.status(), has)
				}
				return nil
			})
			if strings.Contains(has, strange) {
				t.Errorf("the node of AS %s has passed %s on:\n%s", as, strange, has)
			}
		}
	}
}

// bgpTable returns what a router has learnt.
func bgpTable(r *routers.Router) string {
	r.T.Helper()
	if !r.Runs("bird") {
		return vtysh(r, "show bgp ipv4 unicast")
	}
	out, err := r.Birdc("show", "route", "all")
	if err != nil {
		r.T.Fatal(err)
	}
	return out
}

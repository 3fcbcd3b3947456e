package dataplane

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/internal/platform"
)

// Preserve-destination: the packet arrives at a pod of this host with the address of the load balancer.
func TestPreserveDestination(t *testing.T) {
	w := newWorld(t)
	client, one, two, bare := w.a.pod(11), w.a.pod(12), w.a.pod(13), w.a.pod(14)
	w.in("out", func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: platform.IPNet(netip.MustParsePrefix("198.51.100.0/24")),
			Gw: w.a.addr.AsSlice()})
	})
	keep := func(id, vip string, dist uint8, backends ...string) desired.LoadBalancer {
		l := lb(id, vip, 80, 8080, true, backends...) // the inner port does not count
		for i := range l.Ports {
			l.Ports[i].PreserveDIP, l.Ports[i].LocalRoutedVIP, l.Ports[i].VIPExternalIP, l.Ports[i].Distribution = true,
				true, true, dist
		}
		return l
	}

	w.a.desired.LoadBalancers = []desired.LoadBalancer{
		keep("one", "198.51.100.1", 0, w.a.epID(12), w.a.remote("10.244.2.11")),
		keep("both", "198.51.100.2", 0, w.a.epID(12), w.a.epID(13)),
		keep("sticky", "198.51.100.3", 2, w.a.epID(12), w.a.epID(13)), keep("bare", "198.51.100.4", 0, w.a.epID(14)),
		lb("other", "10.96.0.9", 80, 80, false, w.a.epID(12)),
	}

	w.a.apply()
	for pod, name := range map[string]string{one: "one", two: "two"} {
		w.in(pod, func() error {
			for _, vip := range []string{"198.51.100.1/32", "198.51.100.2/32", "198.51.100.3/32"} {
				w.up("lo", vip)
			}
			return nil
		})
		w.serve(pod, name, 80)
	}

	w.serve(bare, "bare", 80)
	w.expect("out", "198.51.100.1:80", "one 10.99.0.1")
	w.expect(client, "198.51.100.1:80", "one 10.244.1.11")
	w.expect("out", "198.51.100.4:80", "timeout") // it does not have the address
	w.expect(client, "10.96.0.9:80", "one 10.99.0.21")
	seen := map[string]bool{}
	for range 60 {
		seen[strings.Fields(w.get("out", "tcp", "198.51.100.2:80"))[0]] = true
	}
	if !seen["one"] || !seen["two"] || len(seen) != 2 {
		t.Errorf("connections went to %v", seen)
	}
	first := w.get("out", "tcp", "198.51.100.3:80")
	for range 10 {
		w.expect("out", "198.51.100.3:80", first)
	}
	conn, err := w.dial("out", "tcp", "198.51.100.2:80")
	must(t, err)
	defer conn.Close()
	was, err := ask(conn)
	must(t, err)
	// One goes, the other comes: an open connection stays where it was.
	for _, id := range []string{w.a.epID(12), w.a.epID(13)} {
		w.a.desired.LoadBalancers[1].Backends = []string{id}
		w.a.apply()
		if got, err := ask(conn); err != nil || got != was {
			t.Errorf("open connection: %q %v, want %q", got, err, was)
		}
	}

	w.restarted()
	w.a.desired.LoadBalancers = slices.DeleteFunc(w.a.desired.LoadBalancers,
		func(l desired.LoadBalancer) bool { return l.ID != "other" })
	w.a.apply()
	w.expect(client, "10.96.0.9:80", "one 10.99.0.21")
	if got := w.get("out", "tcp", "198.51.100.1:80"); strings.HasPrefix(got, "one") {
		t.Errorf("a load balancer that is gone answers: %s", got)
	}
	w.in("a", func() error {
		rules, err := netlink.RuleList(netlink.FAMILY_V4)
		if len(rules) != 3 {
			t.Errorf("routing rules left: %v", rules)
		}
		return err
	})
}

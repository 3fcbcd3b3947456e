package networks

import (
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const router = "10.99.0.1"

// firstHop is the address with which a node answers its pods: the gateway that they have.
func (l *lab) firstHop(node string) string {
	l.t.Helper()
	var n v1.Node
	if err := get(&n, "node", node); err != nil {
		l.t.Fatal(err)
	}
	first := netip.MustParsePrefix(n.Spec.PodCIDR).Addr().Next()
	if strings.HasPrefix(node, "win") {
		return first.Next().String() // the host's endpoint has the second address
	}
	return first.String()
}

// TestTor: no node has a route to another's pods; the router, which was given what `porthole routes --print-router ip` prints, has them.
func TestTor(t *testing.T) {
	l := up(t, "tor")
	for _, node := range nodeNames {
		out, err := commandIn("porthole-"+node, shortly, "ip", "route", "show", "root", "10.244.0.0/16")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, "via") {
			t.Errorf("%s has routes to pods of other nodes:\n%s", node, out)
		}
	}

	f := l.fleet()
	f.checkPaths(promise{
		mtu: 1500,
		via: func(_, _ string) string { return "tor" },
		hops: func(l *lab, from, to string) []string {
			return []string{l.firstHop(from), router, l.nodes[to].String()}
		},
	})
}

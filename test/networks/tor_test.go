package networks

import (
	"net/netip"
	"path/filepath"
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

	l.checkRouter("")
	var win01 v1.Node
	if err := get(&win01, "node", "win01"); err != nil {
		t.Fatal(err)
	}
	if _, err := commandIn("porthole-tor", shortly, "ip", "route", "del", win01.Spec.PodCIDR); err != nil {
		t.Fatal(err)
	}
	l.checkRouter("node win01: no route to " + win01.Spec.PodCIDR + ", want one via 10.99.0.21")
	if _, err := commandIn("porthole-tor", shortly, "ip", "route", "add", win01.Spec.PodCIDR, "nexthop", "via", "10.99.0.21", "nexthop", "via", "10.99.0.11"); err != nil {
		t.Fatal(err)
	}
	l.checkRouter("node win01: " + win01.Spec.PodCIDR + " goes to 10.99.0.11 (node lin01) besides 10.99.0.21")
}

// checkRouter compares the router's routes as an operator would; want is a part of what the check complains about, "" if nothing.
func (l *lab) checkRouter(want string) {
	l.t.Helper()
	shown, err := commandIn("porthole-tor", shortly, "ip", "-j", "route")
	if err != nil {
		l.t.Fatal(err)
	}
	_, err = command(shortly, "sh", "-c", `echo "$1" | "$2" routes --check-router ip --cluster-cidr 10.244.0.0/16 --kubeconfig "$3"`, "sh",
		shown, porthole, filepath.Join(dir, "kubeconfig"))
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		l.t.Errorf("the check of the router says %v, want %q", err, want)
	}
}

package ovn

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	routes "porthole.dev/porthole/routes/ovn"
)

// outside is an address that nodes reach by their default route only: the master has it.
var outside = netip.MustParseAddr("192.0.2.1")

// TestLeave gives a node's card a default route and another one. They lead through br-ex while the node is in the
// cluster, also after a restart of ovs-vswitchd, and through the card again when the node has left: of the mode
// nothing is in Open vSwitch then.
func TestLeave(t *testing.T) {
	w := faultWorld{newWorld(t)}
	w.in(&node{space: w.master}, "ip", "addr", "add", outside.String()+"/32", "dev", "lo")
	w.listen(w.master, "outside", outside)
	w.addNode("n1", "10.99.0.11", "10.244.1.0/24")
	n2 := w.addNode("n2", "10.99.0.12", "10.244.2.0/24")
	w.in(n2, "ip", "route", "add", "203.0.113.7", "dev", "eth0", "scope", "link", "proto", "static")
	w.in(n2, "ip", "route", "add", "198.51.100.0/24", "via", "203.0.113.7", "dev", "eth0", "metric", "50")
	w.in(n2, "ip", "route", "add", "default", "via", master.String(), "dev", "eth0", "proto", "static")
	before := w.in(n2, "ip", "route")
	w.reach(n2.space, outside, 8080, "outside")

	w.sync()
	w.reach(n2.space, outside, 8080, "outside")
	moved := strings.ReplaceAll(before, "dev eth0", "dev br-ex")
	for line := range strings.Lines(moved) {
		if !strings.Contains(w.in(n2, "ip", "route"), strings.TrimSpace(line)) {
			t.Errorf("routes of the node are\n%s\nwithout %s", w.in(n2, "ip", "route"), line)
		}
	}
	w.kill("n2/ovs-vswitchd")
	w.restart("n2/ovs-vswitchd")
	w.sync()
	w.reach(n2.space, outside, 8080, "outside")

	delete(w.nodes, "n2") // its agent has ended
	o := routes.Options{Node: "n2", Database: "unix:" + n2.host.Socket(), Uplink: "eth0"}
	n2.space.Do(func() error { return routes.Remove(t.Context(), o) })
	w.reach(n2.space, outside, 8080, "outside")
	if after := w.in(n2, "ip", "route"); after != before {
		t.Errorf("routes after leaving\n%s\nbefore\n%s", after, before)
	}
	w.empty(n2)
	count := w.vsctl(n2, "get", "open", ".", "next_cfg")
	n2.space.Do(func() error { return routes.Remove(t.Context(), o) })
	if again := w.vsctl(n2, "get", "open", ".", "next_cfg"); again != count {
		t.Errorf("a second time the database is changed: %s, before %s", again, count)
	}

	w.api.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	wait.True(t, 10*time.Second, "the chassis to go", func() bool { return strings.Join(w.chassis(), " ") == "n1" })
}

// empty fails unless a node's Open vSwitch and card are without all that the mode makes.
func (w faultWorld) empty(n *node) {
	w.t.Helper()
	for what, text := range map[string]string{
		"bridges":    w.vsctl(n, "list-br"),
		"ports":      w.vsctl(n, "list-ports", "br-int"),
		"keys":       w.vsctl(n, "get", "open", ".", "external_ids"),
		"interfaces": w.in(n, "ip", "-o", "link"),
		"dropped":    w.in(n, "nft", "list", "tables"),
	} {
		for _, trace := range []string{"br-ex", "k8s-n2", "ovn-remote", "ovn-encap", "ovn-bridge", "ovn-ofctrl",
			"porthole-switch"} {
			if strings.Contains(text, trace) {
				w.t.Errorf("%s of the node that left have %s: %s", what, trace, text)
			}
		}
	}
}

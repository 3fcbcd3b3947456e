package ovn

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/openvswitch"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestAddressChanges gives a node another address. Until the cluster knows it the agent says what is wrong; then the
// tunnels of both nodes follow. A restarted ovs-vswitchd gets the new address back, not the one of before.
func TestAddressChanges(t *testing.T) {
	long(t)
	w := faultWorld{newWorld(t)}
	a, c := w.pair()
	n2 := w.nodes["n2"]
	changed := netip.MustParseAddr("10.99.0.32")
	w.in(n2, "ip", "addr", "del", "10.99.0.12/24", "dev", "br-ex")
	w.in(n2, "ip", "addr", "add", changed.String()+"/24", "dev", "br-ex")
	w.problem("n2",
		"no interface of node n2 has 10.99.0.12, the address of its tunnels (the address of its Node object)")
	if answer, err := send(a.space, "udp", netip.AddrPortFrom(c.addr, 8080).String(), 100, time.Second); err == nil {
		t.Errorf("packets pass to an address that nobody has: %s", answer)
	}

	began := time.Now()
	n2.addr = changed // as the kubelet reports it
	w.sync()
	w.reach(a.space, c.addr, 8080, "c")
	w.reach(c.space, a.addr, 8080, "a")
	w.reach(n2.space, a.addr, 8080, "a")
	t.Logf("packets pass %v after the cluster knew the address", time.Since(began).Round(10*time.Millisecond))
	w.problem("n2")
	stop := w.capture()
	w.reach(a.space, c.addr, 8080, "c")
	seen := map[string]bool{}
	for _, g := range stop() {
		seen[g.from.String()+" to "+g.to.String()] = true
	}
	if len(seen) != 2 || !seen["10.99.0.11 to 10.99.0.32"] || !seen["10.99.0.32 to 10.99.0.11"] {
		t.Errorf("tunnels on the wire: %v", seen)
	}

	w.kill("n2/ovs-vswitchd")
	w.restart("n2/ovs-vswitchd")
	w.sync()
	w.reach(a.space, c.addr, 8080, "c")
	if shown := w.in(n2, "ip", "-o", "addr", "show", "br-ex"); strings.Contains(shown, "10.99.0.12/") ||
		!strings.Contains(shown, changed.String()) {
		t.Errorf("br-ex after a restart of the switch: %s", shown)
	}
	writes := n2.writes.Load()
	w.syncAll()
	if n2.writes.Load() != writes {
		t.Errorf("the agent of n2 goes on writing: %+v", n2.agent.Status())
	}
	wait.True(t, 10*time.Second, "the chassis to be as before",
		func() bool { return strings.Join(w.chassis(), " ") == "n1 n2" })
}

// TestSameID starts a host that is a copy of a node: it has the id of the node, and OVN takes the one for the other.
// The controller says so, and the node works again when the copy is gone.
func TestSameID(t *testing.T) {
	long(t)
	w := faultWorld{newWorld(t)}
	a, c := w.pair()
	addr := netip.MustParseAddr("10.99.0.19")
	twin := &node{name: "twin", addr: addr, space: w.host("twin", addr),
		host: openvswitch.Host{Dir: filepath.Join(w.dir, "twin")}}
	w.must(twin.host.Prepare(t.Context()))
	for _, d := range twin.host.Daemons() {
		w.start("twin", twin.space, d)
	}
	w.vsctl(twin, "set", "open", ".", "external_ids:system-id=n2", "external_ids:hostname=twin",
		"external_ids:ovn-remote="+w.central.SBAddress(),
		"external_ids:ovn-encap-type=geneve", "external_ids:ovn-encap-ip=10.99.0.19",
		"external_ids:ovn-bridge-datapath-type=netdev")
	began := time.Now()
	wait.NoError(t, 20*time.Second, "the event", func() error {
		got := w.api.warnings()
		for _, want := range []string{"Node n2 ChassisTwice", "10.99.0.12 (host n2) and 10.99.0.19 (host twin)",
			"Stop ovn-controller on the one that is not node n2"} {
			if !strings.Contains(got, want) {
				return fmt.Errorf("events %q, want %q", got, want)
			}
		}
		return nil
	})
	t.Logf("two hosts with one id were reported after %v", time.Since(began).Round(10*time.Millisecond))

	w.kill("twin/ovn-controller")
	w.sync()
	w.reach(a.space, c.addr, 8080, "c")
	wait.NoError(t, 60*time.Second, "no problem any more", func() error {
		if p := w.controller.Status().Problems; len(p) > 0 {
			return fmt.Errorf("%q", p)
		}
		return nil
	})
}

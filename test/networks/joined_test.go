package networks

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestJoined: the Windows nodes are set up by `porthole.exe join` with each network that needs more than routes, as
// services of their own service manager. All paths between pods, nodes and services work as on nodes that the
// cluster's supervisor runs.
func TestJoined(t *testing.T) {
	long(t)
	direct := func(l *lab, from, to string) []string { return []string{l.firstHop(from), l.nodes[to].String()} }
	for mode, want := range map[string]promise{
		"vxlan": {mtu: 1450, encap: "vxlan", vni: 4096, port: 4789},
		"bgp":   {mtu: 1500, via: func(_, to string) string { return to }, hops: direct},
		"tor": {mtu: 1500, via: func(_, _ string) string { return "tor" },
			hops: func(l *lab, from, to string) []string {
				return []string{l.firstHop(from), router, l.nodes[to].String()}
			}},
		"ovn": {mtu: 1442, encap: "geneve", port: 6081, card: "eth1",
			tunnel: func(node string) netip.Addr {
				last := map[string]byte{"lin01": 11, "win01": 21, "win02": 22}[node]
				return netip.AddrFrom4([4]byte{10, 98, 0, last})
			},
			hops: func(l *lab, from, _ string) []string {
				return []string{netip.MustParsePrefix(l.podRange(from)).Addr().Next().String()}
			}},
	} {

		t.Run(mode, func(t *testing.T) {
			f := up(t, mode, "--supervisor", "services").fleet()
			f.checkPaths(want)
			if mode == "ovn" {
				f.noKubeProxy()
				leavesSwitch(f.lab, "win02")
			}
		})
	}
}

// leavesSwitch makes a node of the mode ovn no node any more: its Open vSwitch is without what the mode wrote.
func leavesSwitch(l *lab, node string) {
	l.t.Helper()
	at := "--db=unix:" + filepath.Join(dir, "hosts", node, "openvswitch", "db.sock")
	shown := func() string {
		out, err := command(time.Minute, "ovs-vsctl", at, "show", "--", "get", "open", ".", "external_ids")
		if err != nil {
			l.t.Fatalf("%v: %s", err, out)
		}
		return out
	}
	own := []string{"k8s-" + node, "ovn-remote", "ovn-encap-ip", "ovn-bridge-datapath-type"}
	before := shown()
	for _, trace := range own {
		if !strings.Contains(before, trace) {
			l.t.Errorf("Open vSwitch of %s has no %s:\n%s", node, trace, before)
		}
	}

	if out, err := command(3*time.Minute, porthole, "host", "run", "--dir", dir, node, "--", `C:\porthole\porthole.exe`,
		"leave"); err != nil || !strings.Contains(out, "nothing of Porthole is left") {
		l.t.Fatalf("leave: %v\n%s", err, out)
	}
	after := shown()
	for _, trace := range own {
		if strings.Contains(after, trace) {
			l.t.Errorf("Open vSwitch of %s has %s after leave:\n%s", node, trace, after)
		}
	}
}

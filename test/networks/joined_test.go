package networks

import (
	"net/netip"
	"testing"
)

// TestJoined: the Windows nodes are set up by `porthole.exe join` with each network that needs more than routes, as services of their own
// service manager. All paths between pods, nodes and services work as on nodes that the cluster's supervisor runs.
func TestJoined(t *testing.T) {
	long(t)
	direct := func(l *lab, from, to string) []string { return []string{l.firstHop(from), l.nodes[to].String()} }
	for mode, want := range map[string]promise{
		"vxlan": {mtu: 1450, encap: "vxlan", vni: 4096, port: 4789},
		"bgp":   {mtu: 1500, via: func(_, to string) string { return to }, hops: direct},
		"tor": {mtu: 1500, via: func(_, _ string) string { return "tor" }, hops: func(l *lab, from, to string) []string {
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
			}
		})
	}
}

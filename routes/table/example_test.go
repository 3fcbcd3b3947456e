package table_test

import (
	"fmt"
	"net/netip"

	"porthole.dev/porthole/routes/table"
)

// Each pod range of another node gets a route through that node. A route of ours that nobody wants goes; somebody
// else's stays.
func ExampleDiff() {
	nodes := []table.Node{
		{Name: "win01", Addr: netip.MustParseAddr("192.0.2.11"),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}},
		{Name: "win02", Addr: netip.MustParseAddr("192.0.2.12"),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.2.0/24")}},
		{Name: "win03", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.3.0/24")}},
	}
	listed := []table.Route{
		{Dst: netip.MustParsePrefix("10.244.9.0/24"), NextHop: netip.MustParseAddr("192.0.2.19"), Ours: true},
		{Dst: netip.MustParsePrefix("198.51.100.0/24"), NextHop: netip.MustParseAddr("192.0.2.1")},
	}

	fmt.Print(table.Diff(table.Peers(nodes, table.Claims{Self: "win01"}), listed))
	// Output:
	// 10.244.2.0/24 via 192.0.2.12 (win02) missing
	// 10.244.3.0/24 via nowhere (win03) waiting: node win03 has no internal address yet
	// add 10.244.2.0/24 via 192.0.2.12: not there
	// delete 10.244.9.0/24 via 192.0.2.19: no node has this range
}

package vxlan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/routes/table"
)

// TestPlanNew: for a node that comes the changes are those of a whole plan, and none if an entry that is there
// contradicts them.
func TestPlanNew(t *testing.T) {
	o := Options{Node: "self", Addr: netip.MustParseAddr("10.0.0.1"), Config: Default,
		Cluster: netip.MustParsePrefix("10.1.0.0/16")}
	mac := func(last byte) MAC { return MAC{0xaa, 0, 0, 0, 0, last} }
	peer := func(name string, number, last byte) table.Node {
		addr := fmt.Sprintf("10.0.0.%d", number)
		return node(name, addr, fmt.Sprintf("10.1.%d.0/24", number),
			announced(addr, fmt.Sprintf(`{"VNI":4096,"VtepMAC":%q}`, mac(last))))
	}
	own := netip.MustParsePrefix("10.1.1.0/32")
	seen := Kernel{
		Uplink: Uplink{Index: 2, Name: "eth0", MTU: 1500},
		Device: Device{Index: 5, MAC: mac(1), MTU: 1450, Up: true, VXLAN: true, VNI: 4096, Port: 4789,
			Local: o.Addr, Uplink: 2, Addrs: []netip.Prefix{own}},
		Neighbours: []Neighbour{{netip.MustParseAddr("10.1.2.0"), mac(2), true}},
		Forwards:   []Forward{{mac(2), netip.MustParseAddr("10.0.0.2"), true}},
		Routes: []Route{{Dst: netip.MustParsePrefix("10.1.2.0/24"), Via: netip.MustParseAddr("10.1.2.0"),
			OnDevice: true, OnLink: true, Ours: true}},
	}
	self := node("self", "10.0.0.1", "10.1.1.0/24",
		announced("10.0.0.1", fmt.Sprintf(`{"VNI":4096,"VtepMAC":%q}`, mac(1))))
	text := func(ops []Op) string {
		var lines []string
		for _, op := range ops {
			lines = append(lines, op.String())
		}
		return strings.Join(lines, "\n")
	}

	whole := PlanKernel(o, []table.Node{self, peer("b", 2, 2), peer("c", 3, 3)}, seen)
	if got, want := text(PlanNew(o, peer("c", 3, 3), seen)), text(whole.Ops); got != want || len(whole.Ops) != 3 {
		t.Errorf("planned\n%s\nwant\n%s", got, want)
	}
	for name, n := range map[string]table.Node{
		"this node": self, "a twin of a node that is there": peer("c", 3, 2),
		"the range of a node that is there":    peer("c", 2, 3),
		"a node that has not announced itself": node("c", "10.0.0.3", "10.1.3.0/24", nil),
	} {
		if ops := PlanNew(o, n, seen); len(ops) > 0 {
			t.Errorf("%s: planned\n%s", name, text(ops))
		}
	}
	if ops := PlanNew(o, peer("c", 3, 3), Kernel{Routes: slices.Clone(seen.Routes)}); len(ops) > 0 {
		t.Errorf("without a device: planned\n%s", text(ops))
	}
}

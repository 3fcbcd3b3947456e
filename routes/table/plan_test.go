package table

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
func cidr(s string) netip.Prefix {
	return netip.MustParsePrefix(s)
}
func node(name, a string, ranges ...string) Node {
	n := Node{Name: name}
	if a != "" {
		n.Addr = addr(a)
	}
	for _, r := range ranges {
		n.PodCIDRs = append(n.PodCIDRs, cidr(r))
	}
	return n
}
func ours(dst, hop string) Route    { return Route{cidr(dst), addr(hop), true} }
func foreign(dst, hop string) Route { return Route{cidr(dst), addr(hop), false} }

// The example of the first Kubernetes guide for Windows nodes: three hosts and three /24s of one /16.
func guide() []Node {
	return []Node{
		node("lin01", "10.0.0.11", "192.168.0.0/24"),
		node("win01", "10.0.0.21", "192.168.1.0/24"),
		node("win02", "10.0.0.22", "192.168.2.0/24"),
	}
}

func on(self string) Facts { return Facts{Self: self, OnLink: []netip.Prefix{cidr("10.0.0.0/24")}} }

func TestPlan(t *testing.T) {
	cases := []struct {
		name   string
		nodes  []Node
		listed []Route
		facts  Facts
		want   string
	}{
		{"guide: Lin01", guide(), nil, on("lin01"), `
192.168.1.0/24 via 10.0.0.21 (win01) missing
192.168.2.0/24 via 10.0.0.22 (win02) missing
add 192.168.1.0/24 via 10.0.0.21: not there
add 192.168.2.0/24 via 10.0.0.22: not there`},
		{"guide: Win01", guide(), nil, on("win01"), `
192.168.0.0/24 via 10.0.0.11 (lin01) missing
192.168.2.0/24 via 10.0.0.22 (win02) missing
add 192.168.0.0/24 via 10.0.0.11: not there
add 192.168.2.0/24 via 10.0.0.22: not there`},
		{"guide: Win02", guide(), nil, on("win02"), `
192.168.0.0/24 via 10.0.0.11 (lin01) missing
192.168.1.0/24 via 10.0.0.21 (win01) missing
add 192.168.0.0/24 via 10.0.0.11: not there
add 192.168.1.0/24 via 10.0.0.21: not there`},
		{"all there: nothing to do", guide(), []Route{ours("192.168.1.0/24", "10.0.0.21"), ours("192.168.2.0/24", "10.0.0.22")}, on("lin01"), `
192.168.1.0/24 via 10.0.0.21 (win01) present
192.168.2.0/24 via 10.0.0.22 (win02) present`},
		{"one deleted behind our back", guide(), []Route{ours("192.168.2.0/24", "10.0.0.22")}, on("lin01"), `
192.168.1.0/24 via 10.0.0.21 (win01) missing
192.168.2.0/24 via 10.0.0.22 (win02) present
add 192.168.1.0/24 via 10.0.0.21: not there`},
		{"address changed: the right one first, then the old one goes", guide()[:2], []Route{ours("192.168.1.0/24", "10.0.0.99")}, on("lin01"), `
192.168.1.0/24 via 10.0.0.21 (win01) missing
add 192.168.1.0/24 via 10.0.0.21: goes to 10.0.0.99
delete 192.168.1.0/24 via 10.0.0.99: should go to 10.0.0.21`},
		{"overwritten by somebody else", guide()[:2], []Route{foreign("192.168.1.0/24", "10.0.0.99")}, on("lin01"), `
192.168.1.0/24 via 10.0.0.21 (win01) missing: somebody else's route to 192.168.1.0/24 through 10.0.0.99 is there too
add 192.168.1.0/24 via 10.0.0.21: goes to 10.0.0.99`},
		{"somebody else's beside ours is reported and stays", guide()[:2], []Route{ours("192.168.1.0/24", "10.0.0.21"), foreign("192.168.1.0/24", "10.0.0.99")}, on("lin01"), `
192.168.1.0/24 via 10.0.0.21 (win01) present: somebody else's route to 192.168.1.0/24 through 10.0.0.99 is there too`},
		{"somebody else's right route does not count as ours", guide()[:2], []Route{foreign("192.168.1.0/24", "10.0.0.21")}, on("lin01"), `
192.168.1.0/24 via 10.0.0.21 (win01) missing
add 192.168.1.0/24 via 10.0.0.21: not there`},
		{"node deleted", guide()[:1], []Route{ours("192.168.1.0/24", "10.0.0.21"), foreign("192.168.9.0/24", "10.0.0.9")}, on("lin01"), `
delete 192.168.1.0/24 via 10.0.0.21: no node has this range`},
		{"pod range changed", []Node{node("win01", "10.0.0.21", "192.168.7.0/24")}, []Route{ours("192.168.1.0/24", "10.0.0.21")}, on("lin01"), `
192.168.7.0/24 via 10.0.0.21 (win01) missing
add 192.168.7.0/24 via 10.0.0.21: not there
delete 192.168.1.0/24 via 10.0.0.21: no node has this range`},
		{"two nodes claim one range: neither", []Node{node("win01", "10.0.0.21", "192.168.1.0/24"), node("win02", "10.0.0.22", "192.168.1.0/24")},
			[]Route{ours("192.168.1.0/24", "10.0.0.21")}, on("lin01"), `
192.168.1.0/24 via 10.0.0.21 (win01) refused: pod range 192.168.1.0/24 of node win01 overlaps 192.168.1.0/24 of node win02: neither gets a route until one of them is changed
192.168.1.0/24 via 10.0.0.22 (win02) refused: pod range 192.168.1.0/24 of node win02 overlaps 192.168.1.0/24 of node win01: neither gets a route until one of them is changed
delete 192.168.1.0/24 via 10.0.0.21: refused`},
		{"another node claims ours", []Node{node("lin01", "10.0.0.11", "192.168.0.0/24"), node("win01", "10.0.0.21", "192.168.0.0/16")}, nil, on("lin01"), `
192.168.0.0/16 via 10.0.0.21 (win01) refused: pod range 192.168.0.0/16 of node win01 overlaps 192.168.0.0/24 of node lin01: neither gets a route until one of them is changed`},
		{"next hop behind a router", []Node{node("win01", "10.7.0.21", "192.168.1.0/24")}, nil, on("lin01"), `
192.168.1.0/24 via 10.7.0.21 (win01) refused: address 10.7.0.21 of node win01 is not on a segment that this node shares (10.0.0.0/24): host-gateway needs one, or else a router or an overlay`},
		{"not joined yet", []Node{node("win01", "", "192.168.1.0/24"), node("win02", "10.0.0.22")}, nil, on("lin01"), `
192.168.1.0/24 via nowhere (win01) waiting: node win01 has no internal address yet`},
		{"address lost for a moment: what is there stays", []Node{node("win01", "", "192.168.1.0/24")}, []Route{ours("192.168.1.0/24", "10.0.0.21")}, on("lin01"), `
192.168.1.0/24 via nowhere (win01) waiting: node win01 has no internal address yet`},
		{"address inside its own range", []Node{node("win01", "10.0.0.21", "10.0.0.0/24")}, nil, on("lin01"), `
10.0.0.0/24 via 10.0.0.21 (win01) refused: address 10.0.0.21 of node win01 lies inside its own pod range 10.0.0.0/24`},
		{"range of another family", []Node{node("win01", "10.0.0.21", "fd00:1::/64")}, nil, on("lin01"), `
fd00:1::/64 via 10.0.0.21 (win01) refused: node win01 has no address of the same family as its pod range fd00:1::/64`},
		{"host bits and other sizes", []Node{node("win01", "10.0.0.21", "192.168.1.65/26")}, nil, on("lin01"), `
192.168.1.64/26 via 10.0.0.21 (win01) missing
add 192.168.1.64/26 via 10.0.0.21: not there`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want := strings.TrimPrefix(c.want, "\n") + "\n"
			if got := Make(c.nodes, c.listed, c.facts).String(); got != want {
				t.Errorf("plan:\n%swant:\n%s", got, want)
			}
			slices.Reverse(c.nodes)
			slices.Reverse(c.listed)
			if got := Make(c.nodes, c.listed, c.facts).String(); got != want {
				t.Errorf("plan with the arguments in reverse:\n%swant:\n%s", got, want)
			}
		})
	}
}

// TestPlanSettles: after a plan is carried out, the next one has nothing to do, whatever was there before.
func TestPlanSettles(t *testing.T) {
	worlds := [][]Route{
		nil,
		{ours("192.168.1.0/24", "10.0.0.99"), ours("192.168.77.0/24", "10.0.0.21")},
		{foreign("192.168.1.0/24", "10.0.0.99")},
		{ours("192.168.1.0/24", "10.0.0.21"), ours("192.168.1.0/24", "10.0.0.22")},
	}
	for i, listed := range worlds {
		for _, op := range Make(guide(), listed, on("lin01")).Ops {
			listed = slices.DeleteFunc(listed, func(r Route) bool { return op.Verb == Delete && r.Dst == op.Dst && r.NextHop == op.NextHop })
			if op.Verb == Add {
				listed = append(listed, Route{op.Dst, op.NextHop, true})
			}
		}
		if p := Make(guide(), listed, on("lin01")); len(p.Ops) > 0 {
			t.Errorf("world %d is not settled:\n%s", i, p)
		}
	}
}

func TestRefusals(t *testing.T) {
	p := Make([]Node{node("a", "", "10.1.0.0/24", "10.2.0.0/24"), node("b", "10.0.0.5", "10.3.0.0/24")}, nil, on("lin01"))
	if got := p.Refusals(); len(got) != 1 || !strings.Contains(got[0], "no internal address") {
		t.Errorf("Refusals() = %q, want the one reason once", got)
	}
}

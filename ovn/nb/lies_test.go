package nb

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"porthole.dev/porthole/internal/podranges"
)

// TestLyingNodes plays 1,000 sets of nodes of which some lie about their ranges, and have joined before or after the honest ones. Each
// honest node has its switch, and nobody has one with a range outside of that of all pods. One who was there before the honest nodes takes
// a range of theirs only by a change.
func TestLyingNodes(t *testing.T) {
	pods := netip.MustParsePrefix("10.244.0.0/16")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 29))
		f := Facts{Cluster: podranges.Cluster{Pods: []netip.Prefix{pods}, Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}, NodeBits4: 24}}
		honest := 2 + r.IntN(6)
		for i := range honest {
			n := node(fmt.Sprintf("n%02d", i), fmt.Sprintf("10.244.%d.0/24", 2*i), i%2 == 1)
			n.Since = start
			f.Nodes = append(f.Nodes, n)
		}
		rows := carryOut(t, Rows{}, MakePlan(Want(f, Rows{}), Rows{}))

		then := f
		for i := range 1 + r.IntN(3) {
			victim := f.Nodes[r.IntN(honest)].Subnet
			list := []netip.Prefix{victim, netip.PrefixFrom(victim.Addr(), 25), netip.PrefixFrom(victim.Addr(), 23).Masked(), pods,
				netip.MustParsePrefix("10.244.0.0/17"), netip.MustParsePrefix("198.18.77.0/24"), netip.MustParsePrefix("10.96.0.0/24"),
				netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("127.0.0.0/24"), netip.MustParsePrefix("10.244.200.0/24")}
			liar := Node{Name: fmt.Sprintf("%cliar%d", "az"[r.IntN(2)], i), Since: start.Add(time.Hour), Subnet: list[r.IntN(len(list))]}
			if r.IntN(2) == 0 {
				liar.Since = start.Add(-time.Hour)
			}
			then.Nodes = append(then.Nodes, liar)
		}
		for range 2 {
			w := Want(then, rows)
			for _, n := range f.Nodes {
				if w.Subnets[n.Name] != n.Subnet {
					t.Fatalf("set %d: honest node %s has %v, want %s; nodes %+v", seed, n.Name, w.Subnets[n.Name], n.Subnet, then.Nodes)
				}
			}
			for name, subnet := range w.Subnets {
				if subnet.Bits() < pods.Bits() || !pods.Contains(subnet.Addr()) {
					t.Fatalf("set %d: node %s has a switch with %s", seed, name, subnet)
				}
			}
			rows = carryOut(t, rows, MakePlan(w, rows))
		}
	}
}

// TestRangeOutside: the problem of a range outside names the range of all pods.
func TestRangeOutside(t *testing.T) {
	f := Facts{Nodes: []Node{node("a", "198.18.77.0/24", false)}, Cluster: podranges.Cluster{Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}}
	w := Want(f, Rows{})
	const want = "Node a: RangeRefused: pod range 198.18.77.0/24 of node a is not inside the range of all pods 10.244.0.0/16: no route leads there"
	if len(w.Problems) != 1 || w.Problems[0].String() != want || len(w.Subnets) > 0 {
		t.Errorf("problems %v, ranges %v", w.Problems, w.Subnets)
	}
}

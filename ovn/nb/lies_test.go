package nb

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/podranges"
)

// lies is one set of TestLyingNodes: honest nodes, each with a pod, and nodes that lie.
type lies struct {
	r      *rand.Rand
	honest []Node
	liars  []Node
	before []Node // liars with a range and a switch of their own, before they lie
	pods   []Pod  // of honest nodes
	told   []Pod  // of liars
}

var (
	allPods = netip.MustParsePrefix("10.244.0.0/16")
	joined  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// lyingSet returns a set in which liars say wrong ranges in their Node objects, or let pods say so: also ranges that
// nobody has yet.
func lyingSet(seed uint64) lies {
	s := lies{r: rand.New(rand.NewPCG(seed, 29))}
	for i := range 2 + s.r.IntN(6) {
		n := node(fmt.Sprintf("n%02d", i), fmt.Sprintf("10.244.%d.0/24", 2*i), i%2 == 1)
		n.Since = joined
		s.honest = append(s.honest, n)
		s.pods = append(s.pods, pod("of-"+n.Name, n.Name))
	}

	for i := range 1 + s.r.IntN(3) {
		victim := s.honest[s.r.IntN(len(s.honest))].Subnet
		own := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(100 + i), 0}), 24)
		list := []netip.Prefix{victim, netip.PrefixFrom(victim.Addr(), 25),
			netip.PrefixFrom(victim.Addr(), 23).Masked(), allPods,
			netip.MustParsePrefix("10.244.0.0/17"), netip.MustParsePrefix("198.18.77.0/24"),
			netip.MustParsePrefix("10.96.0.0/24"),
			netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("127.0.0.0/24"),
			netip.MustParsePrefix("10.244.200.0/24"), own}
		liar := Node{Name: fmt.Sprintf("%cliar%d", "az"[s.r.IntN(2)], i), Since: joined.Add(time.Hour),
			Subnet: list[s.r.IntN(len(list))]}
		if s.r.IntN(2) == 0 {
			liar.Since = joined.Add(-time.Hour)
		}
		if s.r.IntN(2) == 0 {
			liar.Subnet = own
			s.before = append(s.before, liar)
		}
		s.liars = append(s.liars, liar)

		for k := range s.r.IntN(3) { // its kubelet writes the annotation and the address of its pods
			said := append(list, netip.MustParsePrefix("10.244.201.0/24"))[s.r.IntN(len(list)+1)]
			p := given(pod(fmt.Sprintf("told-%s-%d", liar.Name, k), liar.Name), ovnet.NodeAddr(said).Next().String())
			p.Range = said
			s.told = append(s.told, p)
		}
	}
	return s
}

// holds fails if an honest node or its pod has lost something to the liars.
func (s lies) holds(t *testing.T, seed uint64, w Wanted, addresses map[string]ovnet.Address) {
	t.Helper()
	for _, n := range s.honest {
		if w.Subnets[n.Name] != n.Subnet {
			t.Fatalf("set %d: honest node %s has %v, want %s; liars %+v with %+v", seed, n.Name, w.Subnets[n.Name],
				n.Subnet, s.liars, s.told)
		}
	}
	for _, p := range s.pods {
		if had, has := addresses[p.Key()], w.Addresses[p.Key()]; !has.IP.IsValid() || had.IP.IsValid() && had != has {
			t.Fatalf("set %d: pod %s has %v, before %v", seed, p.Key(), has, had)
		}
	}
	for name, subnet := range w.Subnets {
		if subnet.Bits() < allPods.Bits() || !allPods.Contains(subnet.Addr()) {
			t.Fatalf("set %d: node %s has a switch with %s", seed, name, subnet)
		}
	}
}

// TestLyingNodes plays 1,000 sets of nodes of which some lie about their ranges, themselves or by their pods, and have
// joined before or after the honest ones. Each honest node keeps its switch, its pod the address and OVN its chassis,
// one that joins later gets its own, and nobody has a switch with a range outside of that of all pods. One who was
// there before the honest nodes takes a range of theirs only by a change.
func TestLyingNodes(t *testing.T) {
	for seed := range uint64(1000) {
		s := lyingSet(seed)
		f := Facts{Cluster: podranges.Cluster{Pods: []netip.Prefix{allPods},
			Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}, NodeBits4: 24}}
		f.Nodes, f.Pods = slices.Concat(s.honest, s.before), s.pods
		w := Want(f, Rows{})
		rows := carryOut(t, Rows{}, MakePlan(w, Rows{}))
		addresses := w.Addresses

		for round := range 4 {
			if round == 2 {
				late := node("late", "10.244.201.0/24", false)
				late.Since = joined.Add(2 * time.Hour)
				s.honest = append(s.honest, late)
				s.pods = append(s.pods, pod("of-late", late.Name))
			}
			f.Nodes, f.Pods = slices.Concat(s.honest, s.liars), slices.Concat(s.pods, s.told)
			w = Want(f, rows)
			s.holds(t, seed, w, addresses)
			plan := MakePlan(w, rows)
			for _, n := range s.honest {
				if slices.Contains(plan.Gone, n.Name) {
					t.Fatalf("set %d: the chassis of honest node %s would be deleted", seed, n.Name)
				}
			}
			rows, addresses = carryOut(t, rows, plan), w.Addresses
		}
	}
}

// TestToldRange: what pods alone say of a node without a switch is believed if no Node object says otherwise, also
// later. A range that is wider than those of nodes is not, and a node with a switch keeps that.
func TestToldRange(t *testing.T) {
	old, now := netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("10.244.9.0/24")
	p := given(pod("a", "lin01"), "10.244.1.3")
	p.Range = old
	f := Facts{Nodes: []Node{node("lin01", now.String(), false), node("lin02", "10.244.2.0/24", false)}, Pods: []Pod{p}}
	w := Want(f, Rows{})
	rows := carryOut(t, Rows{}, MakePlan(w, Rows{}))
	if w.Subnets["lin01"] != old || Want(f, rows).Subnets["lin01"] != old {
		t.Errorf("made anew with pods of %s: %v, then %v", old, w.Subnets, Want(f, rows).Subnets)
	}

	f.Nodes = append(f.Nodes, node("new", old.String(), false))
	if w := Want(f, rows); w.Subnets["new"] != old || w.Subnets["lin01"] != now || len(w.Addresses) > 0 ||
		w.Problems[0].Reason != "AddressOutsideRange" {
		t.Errorf("with a Node object that says %s: %v, addresses %v, problems %v", old, w.Subnets, w.Addresses,
			w.Problems)
	}
	f.Nodes = f.Nodes[:2]

	f.Pods[0].Range = netip.MustParsePrefix("10.244.0.0/23")
	if w := Want(f, Rows{}); w.Subnets["lin01"] != now {
		t.Errorf("a wide range is believed: %v", w.Subnets)
	}
	f.Pods[0].Range = old
	for i, bits := range []string{"16", "25"} {
		spoiled := given(pod(fmt.Sprintf("0%d", i), "lin01"), fmt.Sprintf("10.244.1.%d", 7+i))
		spoiled.Range = netip.MustParsePrefix("10.244.1.0/" + bits).Masked()
		f.Pods = append(f.Pods, spoiled)
	}
	second := given(pod("b", "lin01"), "10.244.1.200")
	second.Range = old
	f.Pods = append(f.Pods, second)
	if w := Want(f, Rows{}); w.Subnets["lin01"] != old || len(w.Addresses) != 4 {
		t.Errorf("two pods with changed annotations outweigh two others: %v, %v", w.Subnets, w.Addresses)
	}
	own := Facts{Nodes: f.Nodes}
	if w := Want(f, made(t, own)); w.Subnets["lin01"] != now {
		t.Errorf("a node with a switch of %s has %v", now, w.Subnets)
	}
}

// TestRangeOutside: the problem of a range outside names the range of all pods.
func TestRangeOutside(t *testing.T) {
	f := Facts{Nodes: []Node{node("a", "198.18.77.0/24", false)},
		Cluster: podranges.Cluster{Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}}
	w := Want(f, Rows{})
	const want = "Node a: RangeRefused: pod range 198.18.77.0/24 of node a is not inside the range of all pods 10.244.0.0/16: no route leads there"
	if len(w.Problems) != 1 || w.Problems[0].String() != want || len(w.Subnets) > 0 {
		t.Errorf("problems %v, ranges %v", w.Problems, w.Subnets)
	}
}

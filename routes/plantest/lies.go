package plantest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"porthole.dev/porthole/routes/table"
)

// Sets is how many sets of nodes a random test of lying nodes plays.
const Sets = 1000

// Lies are the nodes of a cluster of which some lie.
type Lies struct {
	Self           string // an honest node
	Pods, Services netip.Prefix
	OnLink         []netip.Prefix
	Honest         []table.Node
	// Before are the nodes before the liars began to lie, or joined. Then are all of them, in any order.
	Before, Then []table.Node
}

// Cluster is what the nodes are held against.
func (l Lies) Cluster() table.Cluster {
	return table.Cluster{Pods: []netip.Prefix{l.Pods}, Services: []netip.Prefix{l.Services}}
}

// Told are annotations that tell where a node is. A mode that reads such ones makes them of the name and the addresses
// that it is to lie about.
type Told func(name string, public netip.Addr, mac string) map[string]string

// Lie makes a set. told may be nil. Some liars are older than all honest nodes, and some are younger. An older one
// lies about ranges of others only after it has told the truth for a while, because whoever is there first with a
// range has it.
func Lie(r *rand.Rand, told Told) Lies {
	l := Lies{Pods: netip.MustParsePrefix("10.244.0.0/16"), Services: netip.MustParsePrefix("10.96.0.0/16"),
		OnLink: []netip.Prefix{netip.MustParsePrefix("10.99.0.0/24")}}
	if told == nil {
		told = func(string, netip.Addr, string) map[string]string { return nil }
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 2 + r.IntN(7) {
		n := table.Node{Name: fmt.Sprintf("n%02d", i), Since: start.Add(time.Duration(r.IntN(9)) * time.Second),
			Addr:     netip.AddrFrom4([4]byte{10, 99, 0, byte(10 + i)}),
			PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(2 * i), 0}), 24)}}
		n.Annotations = told(n.Name, n.Addr, mac(i))
		l.Honest = append(l.Honest, n)
	}
	l.Self = l.Honest[r.IntN(len(l.Honest))].Name
	l.Before, l.Then = slices.Clone(l.Honest), slices.Clone(l.Honest)

	for i := range 1 + r.IntN(4) {
		victim := l.Honest[r.IntN(len(l.Honest))]
		liar := table.Node{Name: fmt.Sprintf("%cliar%d", "az"[r.IntN(2)], i), Since: start.Add(time.Minute),
			Addr:     netip.AddrFrom4([4]byte{10, 99, 0, byte(100 + i)}),
			PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(101 + 2*i), 0}), 24)}}
		liar.Annotations = told(liar.Name, liar.Addr, mac(100+i))
		older, reformed := r.IntN(2) == 0, r.IntN(2) == 0
		if older {
			liar.Since = start.Add(-time.Minute)
		}
		if reformed {
			l.Before = append(l.Before, liar)
		}

		address, copied := liar.Addr, mac(100+i)
		if r.IntN(2) == 0 {
			address = lieAddress(r, victim, l.Self)
		}
		if r.IntN(3) == 0 && (reformed || !older) {
			copied = mac(int(victim.Addr.As4()[3]) - 10)
		}
		if r.IntN(3) > 0 {
			liar.PodCIDRs = []netip.Prefix{lieRange(r, victim, !older || reformed)}
		}
		if r.IntN(2) == 0 || address == liar.Addr {
			liar.Addr = address
		}
		liar.Annotations = told(liar.Name, address, copied)
		l.Then = append(l.Then, liar)
	}
	r.Shuffle(len(l.Then), func(i, j int) { l.Then[i], l.Then[j] = l.Then[j], l.Then[i] })
	return l
}

// mac is the MAC address of the node of that number.
func mac(number int) string { return fmt.Sprintf("0e:00:00:00:00:%02x", number) }

// lieRange returns a range that a liar says to have. theirs allows those of others.
func lieRange(r *rand.Rand, victim table.Node, theirs bool) netip.Prefix {
	own := victim.PodCIDRs[0]
	list := []netip.Prefix{netip.PrefixFrom(victim.Addr, 32), netip.PrefixFrom(victim.Addr, 24).Masked()}
	for _, text := range []string{"0.0.0.0/0", "10.0.0.0/8", "10.244.0.0/16", "10.244.0.0/17", "10.244.0.0/20",
		"198.18.77.0/24", "10.96.0.0/24",
		"127.0.0.0/8", "224.0.0.0/24", "169.254.0.0/16", "10.245.0.0/24"} {
		list = append(list, netip.MustParsePrefix(text))
	}
	if theirs {
		list = append(list, own, own, netip.PrefixFrom(own.Addr(), 25), netip.PrefixFrom(own.Addr().Next(), 32),
			netip.PrefixFrom(own.Addr(), 23).Masked())
	}
	return list[r.IntN(len(list))]
}

// lieAddress returns an address that a liar says to have.
func lieAddress(r *rand.Rand, victim table.Node, self string) netip.Addr {
	list := []netip.Addr{victim.Addr, victim.PodCIDRs[0].Addr().Next()}
	for _, text := range []string{"127.0.0.1", "0.0.0.0", "224.0.0.1", "169.254.1.1", "10.96.0.10", "10.99.0.1",
		"192.0.2.1", "255.255.255.255"} {
		list = append(list, netip.MustParseAddr(text))
	}
	return list[r.IntN(len(list))]
}

// Play plays Sets sets of lying nodes with a mode. open makes a host that has nothing, and pass makes one pass over
// its routes and returns those that it then has. No honest node may lose its route, no other route may lead to a part
// of its range, and no route may lead outside of the range of all pods.
func Play(t *testing.T, told Told, open func(*Lies) (pass func([]table.Node) []table.Route)) {
	t.Helper()
	for seed := range uint64(Sets) {
		l := Lie(rand.New(rand.NewPCG(seed, 29)), told)
		pass := open(&l)
		pass(l.Before)
		for _, nodes := range [][]table.Node{l.Then, l.Then, l.Honest, l.Then} {
			routes := pass(nodes)
			if why := l.wrong(routes); why != "" {
				t.Fatalf("set %d: node %s: %s\nroutes %v\nnodes %+v\nbefore %+v", seed, l.Self, why, routes, nodes,
					l.Before)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// wrong returns what routes do that they must not, or "".
func (l Lies) wrong(routes []table.Route) string {
	for _, n := range l.Honest {
		dst := n.PodCIDRs[0]
		right := slices.Contains(routes, table.Route{Dst: dst, NextHop: n.Addr, Ours: true})
		if n.Name != l.Self && !right {
			return fmt.Sprintf("no route to %s of honest node %s", dst, n.Name)
		}
		for _, r := range routes {
			if r.Dst.Overlaps(dst) && (n.Name == l.Self || r.Dst != dst || r.NextHop != n.Addr) {
				return fmt.Sprintf("the route to %s through %s takes packets of honest node %s", r.Dst, r.NextHop,
					n.Name)
			}
			if r.Dst.Contains(n.Addr) {
				return fmt.Sprintf("the route to %s holds the address of honest node %s", r.Dst, n.Name)
			}
		}
	}
	for _, r := range routes {
		if r.Dst.Bits() < l.Pods.Bits() || !l.Pods.Contains(r.Dst.Addr()) {
			return fmt.Sprintf("the route to %s leads outside of the range of all pods", r.Dst)
		}
	}
	return ""
}

// ApplyRoutes carries out changes of a table of routes.
func ApplyRoutes(routes []table.Route, ops []table.Change) []table.Route {
	for _, c := range ops {
		routes = slices.DeleteFunc(routes,
			func(r table.Route) bool { return r.Ours && r.Dst == c.Dst && r.NextHop == c.NextHop })
		if c.Verb == table.Add {
			routes = append(routes, table.Route{Dst: c.Dst, NextHop: c.NextHop, Ours: true})
		}
	}
	return routes
}

package tor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/routes/table"
)

// plan removes our routes from the node claims.Self: packets to pods of other nodes take the node's default route, to
// the router. What routers do with them is not seen from here, so that no route is wanted on the node. Conflicts
// between nodes are: they are refused for the router too.
func plan(claims table.Claims, nodes []table.Node, seen []table.Route) table.Plan[table.Change] {
	var p table.Plan[table.Change]
	for _, w := range table.Peers(nodes, claims) {
		if w.State == table.Refused {
			p.Wanted = append(p.Wanted, w)
		}
	}

	for _, r := range seen {
		if r.Ours {
			p.Ops = append(p.Ops, table.Change{Verb: table.Delete, Dst: r.Dst, NextHop: r.NextHop,
				Why: "the router has the routes to pods"})
		}
	}
	slices.SortFunc(p.Ops, func(a, b table.Change) int {
		return cmp.Or(a.Dst.Compare(b.Dst), a.NextHop.Compare(b.NextHop))
	})
	return p
}

// Wanted returns the routes that the router of these nodes needs: each pod range through its node's address, by
// destination. Those that must not exist, or cannot yet, are Refused or Waiting with the reason; the others are
// Missing.
func Wanted(nodes []table.Node, cluster table.Cluster) []table.Wanted {
	return wantedOf(nodes, table.Claims{Cluster: cluster})
}

func wantedOf(nodes []table.Node, claims table.Claims) []table.Wanted {
	wanted := table.Peers(nodes, claims)
	for i := range wanted {
		w := &wanted[i]
		if w.State == table.Missing {
			if reason := cannot(*w); reason != "" {
				w.State, w.Reason = table.Refused, reason
			}
		}
	}
	table.Blame(wanted)
	return wanted
}

// cannot returns why a route cannot be made, or "" if it can.
func cannot(w table.Wanted) string {
	switch {
	case w.NextHop.Is4() != w.Dst.Addr().Is4():
		return fmt.Sprintf("node %s has no address of the same family as its pod range %s", w.Node, w.Dst)
	case w.Dst.Contains(w.NextHop):
		return fmt.Sprintf("address %s of node %s lies inside its own pod range %s", w.NextHop, w.Node, w.Dst)
	}
	return ""
}

// usable returns the routes that a router can have.
func usable(wanted []table.Wanted) []table.Wanted {
	return slices.DeleteFunc(slices.Clone(wanted),
		func(w table.Wanted) bool { return w.State == table.Waiting || w.State == table.Refused })
}

// family is what FRR calls the family of a range.
func family(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ip"
	}
	return "ipv6"
}

// RouterChange is one change of a router's routes to a range. It implements table.Op.
type RouterChange struct {
	Dst     netip.Prefix
	NextHop netip.Addr   // of the route that there has to be; zero: none
	Without []netip.Addr // the next hops that go
	Why     string
}

func (c RouterChange) String() string {
	var parts []string
	if c.NextHop.IsValid() {
		parts = append(parts, fmt.Sprintf("route %s via %s", c.Dst, c.NextHop))
	}
	for _, hop := range c.Without {
		parts = append(parts, fmt.Sprintf("no route %s via %s", c.Dst, hop))
	}
	return strings.Join(parts, ", ") + ": " + c.Why
}

// Makes implements table.Op.
func (c RouterChange) Makes() netip.Prefix {
	if c.NextHop.IsValid() {
		return c.Dst
	}
	return netip.Prefix{}
}

// planRouter plans the static routes of a router inside the ranges cluster.Pods: one next hop for each range of a
// node, and none for others. What is Waiting stays as it is. Static routes outside of those, and routes that the
// router learnt, are never changed.
func planRouter(nodes []table.Node, running []Running, cluster table.Cluster) table.Plan[RouterChange] {
	hops := map[netip.Prefix][]netip.Addr{} // of static routes
	for _, r := range running {
		if r.Static && slices.ContainsFunc(cluster.Pods,
			func(all netip.Prefix) bool { return all.Bits() < r.Dst.Bits() && all.Contains(r.Dst.Addr()) }) {
			hops[r.Dst] = append(hops[r.Dst], r.Hops...)
		}
	}

	p := table.Plan[RouterChange]{Wanted: wantedOf(nodes, table.Claims{Cluster: cluster,
		Leads: func(n table.Node, dst netip.Prefix) bool { return slices.Contains(hops[dst], n.AddrFor(dst)) }})}
	stays := map[netip.Prefix]bool{}
	for i := range p.Wanted {
		w := &p.Wanted[i]
		switch w.State {
		case table.Waiting:
			stays[w.Dst] = true
		case table.Missing:
			stays[w.Dst] = true
			if change, right := routeTo(w, hops[w.Dst]); right {
				w.State = table.Present
				w.Reason = strings.Join(checkOne(*w, p.Wanted, running), "; ")
			} else {
				p.Ops = append(p.Ops, change)
			}
		}
	}

	for dst, list := range hops {
		if !stays[dst] {
			p.Ops = append(p.Ops, RouterChange{Dst: dst, Without: list,
				Why: "no node has this range, or none may have it"})
		}
	}
	slices.SortFunc(p.Ops, func(a, b RouterChange) int { return a.Dst.Compare(b.Dst) })
	return p
}

// routeTo returns the change that makes a wanted route of the next hops that it has, and whether it is right already.
func routeTo(w *table.Wanted, has []netip.Addr) (c RouterChange, right bool) {
	c = RouterChange{Dst: w.Dst, NextHop: w.NextHop, Why: "node " + w.Node + " has no route"}
	for _, hop := range has {
		if hop != w.NextHop {
			c.Without = append(c.Without, hop)
		}
	}
	if len(c.Without) > 0 {
		c.Why = "another next hop takes packets of node " + w.Node
	}
	return c, len(has) > 0 && len(c.Without) == 0
}

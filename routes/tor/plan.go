package tor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"porthole.dev/porthole/routes/table"
)

// plan removes our routes from node self: packets to pods of other nodes take the node's default route, to the router. What routers
// do with them is not seen from here, so that no route is wanted on the node. Conflicts between nodes are: they are refused for the
// router too.
func plan(self string, nodes []table.Node, seen []table.Route) table.Plan[table.Change] {
	var p table.Plan[table.Change]
	for _, w := range table.Peers(nodes, self) {
		if w.State == table.Refused {
			p.Wanted = append(p.Wanted, w)
		}
	}

	for _, r := range seen {
		if r.Ours {
			p.Ops = append(p.Ops, table.Change{Verb: table.Delete, Dst: r.Dst, NextHop: r.NextHop, Why: "the router has the routes to pods"})
		}
	}
	slices.SortFunc(p.Ops, func(a, b table.Change) int {
		return cmp.Or(a.Dst.Addr().Compare(b.Dst.Addr()), cmp.Compare(a.Dst.Bits(), b.Dst.Bits()), a.NextHop.Compare(b.NextHop))
	})
	return p
}

// Wanted returns the routes that the router of these nodes needs: each pod range through its node's address, by destination. Those that
// must not exist, or cannot yet, are Refused or Waiting with the reason; the others are Missing.
func Wanted(nodes []table.Node) []table.Wanted {
	wanted := table.Peers(nodes, "")
	for i := range wanted {
		w := &wanted[i]
		if w.State == table.Missing {
			if reason := cannot(*w); reason != "" {
				w.State, w.Reason = table.Refused, reason
			}
		}
	}
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
	return slices.DeleteFunc(slices.Clone(wanted), func(w table.Wanted) bool { return w.State == table.Waiting || w.State == table.Refused })
}

// family is what FRR calls the family of a range.
func family(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ip"
	}
	return "ipv6"
}

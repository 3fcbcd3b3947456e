package hostgw

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/routes/table"
)

// Seen is what this mode observes of the host.
type Seen struct {
	Routes []table.Route  // those of our mark, and those inside the cluster's pod range
	OnLink []netip.Prefix // what the interface of the node's address reaches without a router
}

// plan plans the routes of the node claims.Self: each pod range of another node is reached through that node's own
// address. That works only if the address is on a segment which both nodes share.
func plan(claims table.Claims, nodes []table.Node, seen Seen) table.Plan[table.Change] {
	claims.Leads = table.Leads(seen.Routes)
	wanted := table.Peers(nodes, claims)
	for i := range wanted {
		w := &wanted[i]
		if w.State != table.Missing {
			continue
		}
		if reason := cannot(*w, seen.OnLink); reason != "" {
			w.State, w.Reason = table.Refused, reason
		}
	}
	table.Blame(wanted)
	return table.Diff(wanted, seen.Routes)
}

// cannot returns why a route cannot be made, or "" if it can.
func cannot(w table.Wanted, onLink []netip.Prefix) string {
	switch {
	case w.NextHop.Is4() != w.Dst.Addr().Is4():
		return fmt.Sprintf("node %s has no address of the same family as its pod range %s", w.Node, w.Dst)
	case w.Dst.Contains(w.NextHop):
		return fmt.Sprintf("address %s of node %s lies inside its own pod range %s", w.NextHop, w.Node, w.Dst)
	case !slices.ContainsFunc(onLink, func(l netip.Prefix) bool { return l.Contains(w.NextHop) }):
		return fmt.Sprintf(
			"address %s of node %s is not on a segment that this node shares (%s): host-gateway needs one, or else a router or an overlay",
			w.NextHop, w.Node, join(onLink))
	}
	return ""
}

func join(prefixes []netip.Prefix) string {
	if len(prefixes) == 0 {
		return "none"
	}
	texts := make([]string, len(prefixes))
	for i, p := range prefixes {
		texts[i] = p.Masked().String()
	}
	return strings.Join(texts, ", ")
}

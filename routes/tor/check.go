package tor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/routes/table"
)

// Running is a route that a router has.
type Running struct {
	Dst  netip.Prefix
	Hops []netip.Addr // none: it leads nowhere, or to a segment of the router's own
	// Idle: the router knows the route and does not use it, for example because its next hop is not reached.
	Idle bool
	// Static: somebody configured the route, as those of Export are; the router did not learn it from others, nor is
	// it of a segment.
	Static bool
}

// Check compares what a router has with what it needs, and returns a line for each difference, by node and range. pods
// are the ranges of all pods of the cluster: what else the router has inside them is named too; without them only what
// contradicts a wanted route is.
func Check(wanted []table.Wanted, running []Running, pods []netip.Prefix) []string {
	var lines []string
	for _, w := range wanted {
		switch w.State {
		case table.Waiting, table.Refused:
			lines = append(lines, fmt.Sprintf("node %s: %s: %s: %s", w.Node, w.Dst, w.State, w.Reason))
		default:
			lines = append(lines, checkOne(w, wanted, running)...)
		}
	}

	strays := slices.Clone(running)
	slices.SortFunc(strays, func(a, b Running) int { return a.Dst.Compare(b.Dst) })
	for _, r := range strays {
		if line := stray(r, wanted, pods); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// checkOne compares the route to one range.
func checkOne(w table.Wanted, all []table.Wanted, running []Running) []string {
	var right, idle bool
	var others []string
	for _, r := range running {
		if r.Dst != w.Dst {
			continue
		}
		for _, hop := range r.Hops {
			switch {
			case hop == w.NextHop:
				right, idle = true, r.Idle
			case !r.Idle:
				others = append(others, nameHop(hop, all))
			}
		}
		if len(r.Hops) == 0 && !r.Idle {
			others = append(others, "no next hop")
		}
	}

	slices.Sort(others)
	goes := strings.Join(slices.Compact(others), " and ")
	switch {
	case right && goes != "":
		return []string{fmt.Sprintf(
			"node %s: %s goes to %s besides %s: a part of the connections is lost; remove the other next hop", w.Node,
			w.Dst, goes, w.NextHop)}
	case goes != "":
		return []string{fmt.Sprintf("node %s: %s goes to %s, want %s", w.Node, w.Dst, goes, w.NextHop)}
	case idle:
		return []string{fmt.Sprintf("node %s: %s via %s is there, and the router does not use it: is %s reached?",
			w.Node, w.Dst, w.NextHop, w.NextHop)}
	case !right:
		return []string{fmt.Sprintf("node %s: no route to %s, want one via %s", w.Node, w.Dst, w.NextHop)}
	}
	return nil
}

// nameHop adds the node that has the address.
func nameHop(hop netip.Addr, all []table.Wanted) string {
	for _, w := range all {
		if w.NextHop == hop {
			return fmt.Sprintf("%s (node %s)", hop, w.Node)
		}
	}
	return hop.String()
}

// stray returns a line about a route that nobody wants and that takes packets to pods, or "".
func stray(r Running, wanted []table.Wanted, pods []netip.Prefix) string {
	inside := func(p netip.Prefix) bool { return p.Bits() <= r.Dst.Bits() && p.Contains(r.Dst.Addr()) }
	for _, w := range wanted {
		if w.Dst == r.Dst && w.State != table.Refused && w.State != table.Waiting {
			return ""
		}
	}
	for _, w := range wanted {
		if w.State != table.Refused && inside(w.Dst) && w.Dst != r.Dst && !r.Idle {
			return fmt.Sprintf("node %s: %s, which is a part of its range %s, goes to %s: nobody wants this route",
				w.Node, r.Dst, w.Dst, hops(r.Hops))
		}
	}
	if slices.ContainsFunc(pods, inside) && !slices.Contains(pods, r.Dst) && len(r.Hops) > 0 {
		return fmt.Sprintf("%s via %s: no node has this range", r.Dst, hops(r.Hops))
	}
	return ""
}

func hops(list []netip.Addr) string {
	var texts []string
	for _, a := range list {
		texts = append(texts, a.String())
	}
	if len(texts) == 0 {
		return "no next hop"
	}
	return strings.Join(texts, " and ")
}

package table

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Peers returns a wanted route for each pod range of every node but this one, through that node's address. It is
// sorted by destination, regardless of the order of nodes.
//
// A route is Refused and Untrue if claims do not let its node have the range or the address. It is Waiting if the node
// has no address yet. All others are Missing.
func Peers(nodes []Node, claims Claims) []Wanted {
	var peers []Wanted
	untrue := claims.untrue(nodes)
	for _, n := range nodes {
		if n.Name == claims.Self {
			continue
		}
		for _, dst := range n.PodCIDRs {
			w := Wanted{Node: n.Name, Dst: dst.Masked(), NextHop: n.AddrFor(dst), State: Missing}
			if why := untrue[key{Node: n.Name, Dst: w.Dst}]; why != "" {
				w.State = Refused
				w.Reason = why
				w.Untrue = true
			} else if !w.NextHop.IsValid() {
				w.State, w.Reason = Waiting, fmt.Sprintf("node %s has no internal address yet", w.Node)
			}
			peers = append(peers, w)
		}
	}

	slices.SortFunc(peers, func(a, b Wanted) int {
		return cmp.Or(a.Dst.Compare(b.Dst), cmp.Compare(a.Node, b.Node))
	})
	return peers
}

// Diff plans the changes of a host's route table. A Missing route is added, or becomes Present if it is listed. Then a
// listed route that is ours and not wanted is deleted: in this order no packet is lost in between. The result does not
// depend on the order of listed.
func Diff(wanted []Wanted, listed []Route) Plan[Change] {
	p := Plan[Change]{Wanted: slices.Clone(wanted)}
	routes := make(map[netip.Prefix][]Route, len(listed))
	for _, r := range listed {
		routes[r.Dst] = append(routes[r.Dst], r)
	}

	for i := range p.Wanted {
		w := &p.Wanted[i]
		if w.State != Missing {
			continue
		}
		why := compare(w, routes[w.Dst])
		if w.State == Missing {
			p.Ops = append(p.Ops, Change{Add, w.Dst, w.NextHop, why})
		}
	}

	p.Ops = append(p.Ops, unwanted(p.Wanted, listed)...)
	return p
}

// compare sets w to Present if it is among the routes to its destination, and returns why it has to be added if it is
// not. It compares next hops and not only destinations, so that a route that was overwritten is repaired.
func compare(w *Wanted, listed []Route) (why string) {
	why = "not there"
	for _, r := range listed {
		switch {
		case r.Ours && r.NextHop == w.NextHop:
			w.State = Present
		case r.NextHop != w.NextHop:
			why = "goes to " + hop(r.NextHop)
			if !r.Ours {
				w.Reason = fmt.Sprintf("somebody else's route to %s through %s is there too", r.Dst, hop(r.NextHop))
			}
		}
	}
	return why
}

// unwanted plans the deletion of our routes that are not wanted. A route whose wanted twin is Waiting stays as it is.
func unwanted(wanted []Wanted, listed []Route) []Change {
	to := make(map[netip.Prefix][]Wanted, len(wanted))
	for _, w := range wanted {
		to[w.Dst] = append(to[w.Dst], w)
	}

	var gone []Change
	for _, r := range listed {
		stays := slices.ContainsFunc(to[r.Dst], func(w Wanted) bool {
			return w.State == Waiting || w.State != Refused && w.NextHop == r.NextHop
		})
		if r.Ours && !stays {
			gone = append(gone, Change{Delete, r.Dst, r.NextHop, whyUnwanted(to[r.Dst])})
		}
	}

	slices.SortFunc(gone, func(a, b Change) int {
		return cmp.Or(a.Dst.Compare(b.Dst), a.NextHop.Compare(b.NextHop))
	})
	return gone
}

// whyUnwanted returns why a route is not one of those that are wanted to its destination.
func whyUnwanted(wanted []Wanted) string {
	switch {
	case len(wanted) == 0:
		return "no node has this range"
	case wanted[0].State == Refused:
		return "refused"
	}
	return "should go to " + hop(wanted[0].NextHop)
}

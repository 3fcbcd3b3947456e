package bgp

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/routes/table"
)

// learning is where packets to one destination should go.
type learning struct {
	node string       // whose range it is; empty: no node's
	hops []netip.Addr // at least one, in order
	rank Rank
}

// learn chooses the paths that become routes. Paths to ranges that were not asked for are left out without a word: a
// router that announces a default route is no fault. A path to a node's range that another node announces is refused.
// A path that a node announces itself goes before those of others to its range.
func (p *planner) learn() map[netip.Prefix]learning {
	learnt := map[netip.Prefix]learning{}
	refused := map[string]bool{}
	direct := p.direct()
	for _, path := range p.seen.Paths {
		if !p.asked(path.Dst) {
			continue
		}
		owner := p.owners.of(path.Dst)
		stolen := p.stolen(path, owner)
		if reason := cmp.Or(stolen, p.unusable(path, owner)); reason != "" {
			// One refusal for each range and reason, however many paths there are.
			if key := path.Dst.String() + reason; !refused[key] {
				refused[key] = true
				p.refuse(table.Wanted{Node: owner, Dst: path.Dst, NextHop: path.NextHop, Untrue: stolen != ""}, reason)
			}
			continue
		}
		if owner == p.self.Name || direct[path.Dst] && !p.from(path, owner) {
			continue
		}

		// The paths come best first; those of equal rank share the traffic.
		l, more := learnt[path.Dst]
		if more && l.rank != path.Rank {
			continue
		}
		l.node, l.rank = owner, path.Rank
		if !slices.Contains(l.hops, path.NextHop) {
			l.hops = append(l.hops, path.NextHop)
		}
		learnt[path.Dst] = l
	}

	for _, l := range learnt {
		slices.SortFunc(l.hops, netip.Addr.Compare)
	}
	return learnt
}

// direct returns the destinations to which a usable path comes from the node whose range it is.
func (p *planner) direct() map[netip.Prefix]bool {
	found := map[netip.Prefix]bool{}
	for _, path := range p.seen.Paths {
		if owner := p.owners.of(path.Dst); p.asked(path.Dst) && p.from(path, owner) && p.stolen(path, owner) == "" &&
			p.unusable(path, owner) == "" {
			found[path.Dst] = true
		}
	}
	return found
}

// from reports whether a node announced a path, as far as its addresses tell.
func (p *planner) from(path Path, node string) bool {
	return node != "" && (slices.Contains(p.owners.at[path.NextHop], node) ||
		slices.Contains(p.owners.at[path.Origin], node))
}

// asked reports whether routes to dst are wanted at all. 0.0.0.0/0 among the accepted ranges stands for itself only.
func (p *planner) asked(dst netip.Prefix) bool {
	within := func(r netip.Prefix) bool {
		return r == dst || r.Bits() > 0 && r.Bits() <= dst.Bits() && r.Contains(dst.Addr())
	}
	return within(p.cluster) || slices.ContainsFunc(p.Accept, within)
}

// stolen returns why a path is of somebody who must not announce it, or "".
func (p *planner) stolen(path Path, owner string) string {
	if reason := p.untrue[path.Dst]; reason != "" && owner == "" {
		return reason
	}
	for _, from := range []netip.Addr{path.NextHop, path.Origin} {
		announcers := p.owners.at[from]
		switch {
		case len(announcers) == 0 || slices.Contains(announcers, owner) || slices.Contains(p.Routers, from):
		case owner != "":
			return fmt.Sprintf(
				"node %s (%s) announces %s, learnt from %s; that is the pod range of node %s: it is not used",
				announcers[0], from, path.Dst, path.Peer, owner)
		case p.cluster.Bits() <= path.Dst.Bits() && p.cluster.Contains(path.Dst.Addr()):
			return fmt.Sprintf("node %s (%s) announces %s, learnt from %s, which is not its pod range: it is not used",
				announcers[0], from, path.Dst, path.Peer)
		}
	}
	if owner != "" && owner != p.self.Name && p.owners.ranges[path.Dst] == "" && !p.from(path, owner) {
		return fmt.Sprintf(
			"peer %s announces %s, a part of the pod range of node %s, which does not announce it itself: it is not used", path.Peer, path.Dst, owner)
	}
	return ""
}

// unusable returns why else a path must not become a route, or "".
func (p *planner) unusable(path Path, owner string) string {
	if owner == p.self.Name {
		return "" // the segment of the pods is a part of it
	}
	for _, segment := range p.seen.Segments {
		if segment.Bits() <= path.Dst.Bits() && segment.Contains(path.Dst.Addr()) {
			return fmt.Sprintf(
				"peer %s announces %s, which this node reaches itself, on its segment %s: it is not used", path.Peer,
				path.Dst, segment)
		}
	}
	if slices.ContainsFunc(p.seen.OnLink, func(l netip.Prefix) bool { return l.Contains(path.NextHop) }) {
		return ""
	}
	return fmt.Sprintf(
		"peer %s announces %s through %s, which is on no segment of this node (%s): let the router announce itself as next hop (next-hop-self)",
		path.Peer, path.Dst, path.NextHop, joinPrefixes(p.seen.OnLink))
}

// covered reports whether dst, or a range that it is a part of, was learnt.
func covered(learnt map[netip.Prefix]learning, dst netip.Prefix) bool {
	for bits := dst.Bits(); bits >= 0; bits-- {
		if _, ok := learnt[netip.PrefixFrom(dst.Addr(), bits).Masked()]; ok {
			return true
		}
	}
	return false
}

// owners knows which node has which range, and which nodes say to have an address.
type owners struct {
	ranges map[netip.Prefix]string
	at     map[netip.Addr][]string // names in order
	bits   []int                   // lengths that occur in ranges, the longest first
}

// ownersOf returns the owners of the ranges that are no lies: those of node self, and those of peers that are not
// Untrue.
func ownersOf(self table.Node, nodes []table.Node, peers []table.Wanted) owners {
	o := owners{ranges: map[netip.Prefix]string{}, at: map[netip.Addr][]string{}}
	for _, n := range nodes {
		if n.Addr.IsValid() {
			o.at[n.Addr] = append(o.at[n.Addr], n.Name)
		}
	}
	for _, names := range o.at {
		slices.Sort(names)
	}

	// A range of another node counts unless it is untrue; the node's own are added last and win.
	add := func(name string, dst netip.Prefix) {
		o.ranges[dst] = name
		if !slices.Contains(o.bits, dst.Bits()) {
			o.bits = append(o.bits, dst.Bits())
		}
	}
	for _, w := range peers {
		if !w.Untrue {
			add(w.Node, w.Dst)
		}
	}
	for _, cidr := range self.PodCIDRs {
		add(self.Name, cidr.Masked())
	}
	slices.SortFunc(o.bits, func(a, b int) int { return b - a })
	return o
}

// of returns the node whose range contains dst, or "".
func (o owners) of(dst netip.Prefix) string {
	for _, bits := range o.bits {
		if bits > dst.Bits() || bits > dst.Addr().BitLen() {
			continue
		}
		if name := o.ranges[netip.PrefixFrom(dst.Addr(), bits).Masked()]; name != "" {
			return name
		}
	}
	return ""
}

// joinPrefixes is "none" for an empty list.
func joinPrefixes(prefixes []netip.Prefix) string {
	if len(prefixes) == 0 {
		return "none"
	}
	texts := make([]string, len(prefixes))
	for i, l := range prefixes {
		texts[i] = l.String()
	}
	return strings.Join(texts, ", ")
}

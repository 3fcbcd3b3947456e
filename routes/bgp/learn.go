package bgp

import (
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

// learn chooses the paths that become routes. Paths to ranges that were not asked for are left out without a word: a router that
// announces a default route is no fault. A path to a node's range that another node announces is refused.
func (p *planner) learn() map[netip.Prefix]learning {
	learnt, refused := map[netip.Prefix]learning{}, map[string]bool{}
	for _, path := range p.seen.Paths {
		if !p.asked(path.Dst) {
			continue
		}
		owner := p.owners.of(path.Dst)
		if reason := p.unusable(path, owner); reason != "" {
			if key := path.Dst.String() + reason; !refused[key] {
				refused[key] = true
				p.refuse(table.Wanted{Node: owner, Dst: path.Dst, NextHop: path.NextHop}, reason)
			}
			continue
		}
		if owner == p.self.Name || p.owners.overlap(path.Dst, owner) != "" && owner != "" {
			continue
		}

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

// asked reports whether routes to dst are wanted at all. 0.0.0.0/0 among the accepted ranges stands for itself only.
func (p *planner) asked(dst netip.Prefix) bool {
	within := func(r netip.Prefix) bool {
		return r == dst || r.Bits() > 0 && r.Bits() <= dst.Bits() && r.Contains(dst.Addr())
	}
	return within(p.cluster) || slices.ContainsFunc(p.Accept, within)
}

// unusable returns why a path must not become a route, or "".
func (p *planner) unusable(path Path, owner string) string {
	for _, from := range []netip.Addr{path.NextHop, path.Origin} {
		if announcer := p.owners.at[from]; owner != "" && announcer != "" && announcer != owner {
			return fmt.Sprintf("node %s (%s) announces %s, learnt from %s; that is the pod range of node %s: it is not used", announcer, from, path.Dst, path.Peer, owner)
		}
	}
	if owner == p.self.Name {
		return "" // the segment of the pods is a part of it
	}
	for _, segment := range p.seen.Segments {
		if segment.Bits() <= path.Dst.Bits() && segment.Contains(path.Dst.Addr()) {
			return fmt.Sprintf("peer %s announces %s, which this node reaches itself, on its segment %s: it is not used", path.Peer, path.Dst, segment)
		}
	}
	if slices.ContainsFunc(p.seen.OnLink, func(l netip.Prefix) bool { return l.Contains(path.NextHop) }) {
		return ""
	}
	return fmt.Sprintf("peer %s announces %s through %s, which is on no segment of this node (%s): let the router announce itself as next hop (next-hop-self)",
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

// owners knows which node has which range, and which address.
type owners struct {
	ranges map[netip.Prefix][]string
	at     map[netip.Addr]string
	bits   []int // lengths that occur in ranges, the longest first
	inside map[netip.Prefix][]string
}

func ownersOf(nodes []table.Node) owners {
	o := owners{ranges: map[netip.Prefix][]string{}, at: map[netip.Addr]string{}, inside: map[netip.Prefix][]string{}}
	for _, n := range nodes {
		if n.Addr.IsValid() {
			o.at[n.Addr] = n.Name
		}
		for _, cidr := range n.PodCIDRs {
			cidr = cidr.Masked()
			o.ranges[cidr] = append(o.ranges[cidr], n.Name)
			if !slices.Contains(o.bits, cidr.Bits()) {
				o.bits = append(o.bits, cidr.Bits())
			}
		}
	}
	slices.SortFunc(o.bits, func(a, b int) int { return b - a })

	for cidr, names := range o.ranges {
		for _, bits := range o.bits {
			if bits < cidr.Bits() {
				outer := netip.PrefixFrom(cidr.Addr(), bits).Masked()
				o.inside[outer] = append(o.inside[outer], names...)
			}
		}
	}
	return o
}

// of returns the first name of the nodes whose range contains dst, or "".
func (o owners) of(dst netip.Prefix) string {
	for _, bits := range o.bits {
		if bits > dst.Bits() || bits > dst.Addr().BitLen() {
			continue
		}
		if names := o.ranges[netip.PrefixFrom(dst.Addr(), bits).Masked()]; len(names) > 0 {
			return slices.Min(names)
		}
	}
	return ""
}

// overlap returns the first name of the nodes but one whose range overlaps with dst, or "".
func (o owners) overlap(dst netip.Prefix, but string) string {
	var others []string
	add := func(names []string) {
		for _, n := range names {
			if n != but {
				others = append(others, n)
			}
		}
	}
	for _, bits := range o.bits {
		if bits <= dst.Bits() {
			add(o.ranges[netip.PrefixFrom(dst.Addr(), bits).Masked()])
		}
	}
	add(o.inside[dst])
	if len(others) == 0 {
		return ""
	}
	return slices.Min(others)
}

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

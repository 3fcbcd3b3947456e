package table

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Make plans the routes of the node f.Self. The result does not depend on the order of its arguments. Nodes without
// an address or pod range are in nobody's way and get no route. Two nodes that claim overlapping ranges both get none:
// to choose one would send the other's packets astray.
func Make(nodes []Node, listed []Route, f Facts) Plan {
	var p Plan
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range nodes {
		if n.Name == f.Self {
			continue
		}
		for _, dst := range n.PodCIDRs {
			w := Wanted{Node: n.Name, Dst: dst.Masked(), NextHop: n.Addr}
			w.State, w.Reason = judge(w, nodes, f)
			p.Wanted = append(p.Wanted, w)
		}
	}
	slices.SortFunc(p.Wanted, func(a, b Wanted) int {
		return cmp.Or(comparePrefix(a.Dst, b.Dst), cmp.Compare(a.Node, b.Node))
	})
	for i := range p.Wanted {
		if p.Wanted[i].State == Missing {
			p.addUnlessThere(&p.Wanted[i], listed)
		}
	}
	p.deleteUnwanted(listed)
	return p
}

// judge tells whether a route may exist at all. Missing means that it may.
func judge(w Wanted, nodes []Node, f Facts) (State, string) {
	for _, other := range nodes {
		for _, cidr := range other.PodCIDRs {
			if other.Name != w.Node && cidr.Overlaps(w.Dst) {
				return Refused, fmt.Sprintf("pod range %s of node %s overlaps %s of node %s: neither gets a route until one of them is changed",
					w.Dst, w.Node, cidr.Masked(), other.Name)
			}
		}
	}
	switch {
	case !w.NextHop.IsValid():
		return Waiting, fmt.Sprintf("node %s has no internal address yet", w.Node)
	case w.NextHop.Is4() != w.Dst.Addr().Is4():
		return Refused, fmt.Sprintf("node %s has no address of the same family as its pod range %s", w.Node, w.Dst)
	case w.Dst.Contains(w.NextHop):
		return Refused, fmt.Sprintf("address %s of node %s lies inside its own pod range %s", w.NextHop, w.Node, w.Dst)
	case !slices.ContainsFunc(f.OnLink, func(l netip.Prefix) bool { return l.Contains(w.NextHop) }):
		return Refused, fmt.Sprintf("address %s of node %s is not on a segment that this node shares (%s): host-gateway needs one, or else a router or an overlay",
			w.NextHop, w.Node, join(f.OnLink))
	}
	return Missing, ""
}

// addUnlessThere looks at the next hop, not only at the destination: a route that was overwritten is repaired.
func (p *Plan) addUnlessThere(w *Wanted, listed []Route) {
	why := "not there"
	for _, r := range listed {
		switch {
		case r.Dst != w.Dst:
		case r.Ours && r.NextHop == w.NextHop:
			w.State = Present
		case r.NextHop != w.NextHop:
			why = "goes to " + hop(r.NextHop)
			if !r.Ours {
				w.Reason = fmt.Sprintf("somebody else's route to %s through %s is there too", r.Dst, hop(r.NextHop))
			}
		}
	}
	if w.State == Missing {
		p.Ops = append(p.Ops, Op{Add, w.Dst, w.NextHop, why})
	}
}

// deleteUnwanted retires our routes after the right ones are in place, so that no packet is lost in between.
func (p *Plan) deleteUnwanted(listed []Route) {
	var gone []Op
	for _, r := range listed {
		if !r.Ours {
			continue
		}
		wanted := slices.ContainsFunc(p.Wanted, func(w Wanted) bool {
			return w.Dst == r.Dst && (w.State == Waiting || w.State != Refused && w.NextHop == r.NextHop)
		})
		if !wanted {
			gone = append(gone, Op{Delete, r.Dst, r.NextHop, p.whyUnwanted(r)})
		}
	}
	slices.SortFunc(gone, func(a, b Op) int {
		return cmp.Or(comparePrefix(a.Dst, b.Dst), a.NextHop.Compare(b.NextHop))
	})
	p.Ops = append(p.Ops, gone...)
}

func (p *Plan) whyUnwanted(r Route) string {
	for _, w := range p.Wanted {
		switch {
		case w.Dst != r.Dst:
		case w.State == Refused:
			return "refused"
		default:
			return "should go to " + hop(w.NextHop)
		}
	}
	return "no node has this range"
}

// Refusals lists the reasons of the routes that must not or cannot exist, without repeats.
func (p Plan) Refusals() []string {
	var reasons []string
	for _, w := range p.Wanted {
		if (w.State == Refused || w.State == Waiting) && !slices.Contains(reasons, w.Reason) {
			reasons = append(reasons, w.Reason)
		}
	}
	return reasons
}

// String is the plan as logs, dry runs and golden tests show it: the wanted routes, then the changes.
func (p Plan) String() string {
	var b strings.Builder
	for _, w := range p.Wanted {
		fmt.Fprintf(&b, "%s via %s (%s) %s", w.Dst, hop(w.NextHop), w.Node, w.State)
		if w.Reason != "" {
			fmt.Fprintf(&b, ": %s", w.Reason)
		}
		b.WriteByte('\n')
	}
	for _, o := range p.Ops {
		fmt.Fprintf(&b, "%s\n", o)
	}
	return b.String()
}

func (o Op) String() string {
	return fmt.Sprintf("%s %s via %s: %s", o.Verb, o.Dst, hop(o.NextHop), o.Why)
}

func hop(a netip.Addr) string {
	if !a.IsValid() {
		return "nowhere"
	}
	return a.String()
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

func comparePrefix(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

package table

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"porthole.dev/porthole/internal/podranges"
)

// Cluster is what nodes' claims are held against.
type Cluster = podranges.Cluster

// Claims decides which nodes may have what they say that they have, in the order of podranges.Settle. A node's address
// is never a reason to take a route from a node that says that it has the same one: both routes lead there.
type Claims struct {
	Cluster Cluster
	// Self is this node's name; empty: the host is no node.
	Self string
	// Leads reports whether the host's entries lead packets for a range to a node; nil: the host has none.
	Leads func(n Node, dst netip.Prefix) bool
}

// Leads returns Claims.Leads of a host with these routes.
func Leads(routes []Route) func(n Node, dst netip.Prefix) bool {
	ours := sync.OnceValue(func() map[Route]bool { // few passes ask
		set := make(map[Route]bool, len(routes))
		for _, r := range routes {
			set[r] = r.Ours
		}
		return set
	})
	return func(n Node, dst netip.Prefix) bool {
		return ours()[Route{Dst: dst, NextHop: n.AddrFor(dst), Ours: true}]
	}
}

// key identifies a claim.
type key = podranges.Key

// untrue returns why ranges get no route, of those that get none because of what their nodes say.
func (c Claims) untrue(nodes []Node) map[key]string {
	reasons := map[key]string{}
	self := c.self(nodes)
	list := make([]podranges.Claim, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		for _, dst := range n.PodCIDRs {
			dst = dst.Masked()
			why := c.Cluster.RefusesRange(n.Name, dst)
			if n != self && why == "" {
				why = c.refusesHop(*n, dst, self)
			}
			if why != "" {
				reasons[key{Node: n.Name, Dst: dst}] = why
				continue
			}
			list = append(list, podranges.Claim{Node: n.Name, Since: n.Since, Dst: dst, Self: n == self})
		}
	}

	c.Cluster.SetUsual(list, measured(list, self))
	maps.Copy(reasons, podranges.Settle(list, c.leads(nodes)))
	if len(c.Cluster.Pods) == 0 {
		holdAddresses(list, nodes, reasons)
	}
	return reasons
}

// leads is Leads for claims.
func (c Claims) leads(nodes []Node) func(podranges.Claim) bool {
	if c.Leads == nil {
		return nil
	}
	byName := sync.OnceValue(func() map[string]*Node {
		m := make(map[string]*Node, len(nodes))
		for i := range nodes {
			m[nodes[i].Name] = &nodes[i]
		}
		return m
	})
	return func(one podranges.Claim) bool { return c.Leads(*byName()[one.Node], one.Dst) }
}

// measured returns the claims by which the length of nodes' ranges is known: those of this node, or else all.
func measured(list []podranges.Claim, self *Node) []podranges.Claim {
	if self == nil {
		return list
	}
	var own []podranges.Claim
	for _, p := range self.PodCIDRs {
		own = append(own, podranges.Claim{Dst: p})
	}
	return own
}

// Older compares nodes by when they joined, then by name. A time that is not known is the latest.
func Older(a, b Node) int {
	return podranges.Older(podranges.Claim{Node: a.Name, Since: a.Since}, podranges.Claim{Node: b.Name, Since: b.Since})
}

// self returns this node; nil: it is not among nodes.
func (c Claims) self(nodes []Node) *Node {
	if i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == c.Self }); i >= 0 && c.Self != "" {
		return &nodes[i]
	}
	return nil
}

// refusesHop returns why packets for a range must not go to the address of its node, or "". A node without an address
// has none to be refused.
func (c Claims) refusesHop(n Node, dst netip.Prefix, self *Node) string {
	hop := n.AddrFor(dst)
	if !hop.IsValid() {
		return ""
	}
	if self != nil && (hop == self.Addr || hop == self.Addr6) {
		return fmt.Sprintf("address %s of node %s is that of this node, %s", hop, n.Name, self.Name)
	}
	return c.Cluster.RefusesAddress(n.Name, hop)
}

// holdAddresses adds to reasons the ranges that hold a node's address and, if the node with the range is older than
// the one with the address, the ranges of the latter.
func holdAddresses(list []podranges.Claim, nodes []Node, reasons map[key]string) {
	list = slices.SortedFunc(slices.Values(list),
		func(a, b podranges.Claim) int { return cmp.Or(podranges.Older(a, b), a.Dst.Compare(b.Dst)) })
	nodes = slices.SortedFunc(slices.Values(nodes), Older)
	lies := func(n Node) bool {
		return len(n.PodCIDRs) > 0 &&
			!slices.ContainsFunc(n.PodCIDRs,
				func(dst netip.Prefix) bool { return reasons[key{Node: n.Name, Dst: dst.Masked()}] == "" })
	}

	for _, one := range list {
		at := key{Node: one.Node, Dst: one.Dst}
		for _, n := range nodes {
			i := slices.IndexFunc(n.addresses(), one.Dst.Contains)
			if i < 0 || reasons[at] != "" || n.Name != one.Node && lies(n) {
				continue
			}
			why := fmt.Sprintf("pod range %s of node %s holds address %s of node %s", one.Dst, one.Node,
				n.addresses()[i], n.Name)
			if n.Name == one.Node || podranges.Older(podranges.Claim{Node: n.Name, Since: n.Since}, one) < 0 {
				reasons[at] = why
				continue
			}
			for _, dst := range n.PodCIDRs {
				reasons[key{Node: n.Name, Dst: dst.Masked()}] = why + ", which joined later"
			}
		}
	}
}

// Own returns why other nodes send nothing to this node, of those reasons that lie in what its Node object says; none:
// they do.
func (c Claims) Own(nodes []Node) (reasons []string) {
	self := c.self(nodes)
	if self == nil {
		return nil
	}
	for _, at := range self.addresses() {
		if why := c.Cluster.RefusesAddress(self.Name, at); why != "" {
			reasons = append(reasons, why)
		}
	}

	judge := Claims{Cluster: c.Cluster, Leads: c.Leads} // without Self, as others do
	untrue := judge.untrue(nodes)
	for _, dst := range self.PodCIDRs {
		if why := untrue[key{Node: self.Name, Dst: dst.Masked()}]; why != "" && !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
	}
	return reasons
}

// SameAddress returns a text for each address that several nodes say to have, sorted. Packets to the pods of all of
// them go there.
func SameAddress(nodes []Node) (texts []string) {
	at := map[netip.Addr][]string{}
	for _, n := range nodes {
		for _, a := range n.addresses() {
			at[a] = append(at[a], n.Name)
		}
	}
	for a, names := range at {
		if len(names) > 1 {
			slices.Sort(names)
			texts = append(texts,
				fmt.Sprintf(
					"nodes %s say that they have the address %s: packets to the pods of all go to whoever has it",
					strings.Join(names, " and "), a))
		}
	}
	slices.Sort(texts)
	return texts
}

// Blame makes refused routes Untrue if there is one that is not refused: what is wrong then lies in what single nodes
// say. If all are refused, it may lie in this host, which is told.
func Blame(wanted []Wanted) {
	if !slices.ContainsFunc(wanted, func(w Wanted) bool { return w.State != Refused }) {
		return
	}
	for i := range wanted {
		wanted[i].Untrue = wanted[i].State == Refused
	}
}

// addresses returns those of the node that are known.
func (n Node) addresses() (list []netip.Addr) {
	for _, a := range []netip.Addr{n.Addr, n.Addr6} {
		if a.IsValid() {
			list = append(list, a)
		}
	}
	return list
}

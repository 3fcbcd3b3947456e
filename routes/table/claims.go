package table

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// Cluster is what is known of the whole cluster. What nodes say of themselves is held against it, because a node writes its own
// Node object: its addresses and annotations at any time, and its pod ranges when the object is made.
type Cluster struct {
	// Pods are the ranges of all pods, one for each family; none: not known. Then ranges are held against what no node can have.
	Pods     []netip.Prefix
	Services []netip.Prefix // of all services; none: not known
}

// Claims decides which nodes may have what they say that they have. The order in which nodes win is:
//
//  1. this node itself, on its own host,
//  2. a range that is not wider than those of other nodes, over a wider one: a wide range would take those of nodes that join later,
//  3. whoever the host's entries lead to already: a node cannot take by a change what another has,
//  4. whose Node object is older, and of two of one second the one whose name comes first.
//
// A node's address is never a reason to take a route from a node that says that it has the same one: both routes lead there.
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

// claim is one pod range of one node.
type claim struct {
	node  *Node
	dst   netip.Prefix
	self  bool // of this node
	wide  bool // wider than other nodes' ranges
	leads bool // Claims.Leads
}

// key identifies a claim.
type key struct {
	node string
	dst  netip.Prefix
}

// untrue returns why ranges get no route, of those that get none because of what their nodes say.
func (c Claims) untrue(nodes []Node) map[key]string {
	reasons := map[key]string{}
	self := c.self(nodes)
	list := make([]claim, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		for _, dst := range n.PodCIDRs {
			dst = dst.Masked()
			why := c.Cluster.refusesRange(n.Name, dst)
			if n != self && why == "" {
				why = c.refusesHop(*n, dst, self)
			}
			if why != "" {
				reasons[key{n.Name, dst}] = why
				continue
			}
			list = append(list, claim{node: n, dst: dst})
		}
	}

	contested := contested(list)
	c.rank(contested, self, nodes)
	settle(contested, reasons)
	if len(c.Cluster.Pods) == 0 {
		holdAddresses(list, nodes, reasons)
	}
	return reasons
}

// self returns this node; nil: it is not among nodes.
func (c Claims) self(nodes []Node) *Node {
	if i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == c.Self }); i >= 0 && c.Self != "" {
		return &nodes[i]
	}
	return nil
}

// Least lengths of a node's range where the range of all pods is not known: the controller manager gives out no wider ones
// (--node-cidr-mask-size is at most 16 bits longer than --cluster-cidr, and no cluster has a whole /8 for one node).
const (
	widest4 = 16
	widest6 = 48
)

// refusesRange returns why no node may have a range, or "".
func (c Cluster) refusesRange(node string, dst netip.Prefix) string {
	at, least := dst.Addr(), widest4
	if at.Is6() {
		least = widest6
	}
	if i := slices.IndexFunc(c.Services, dst.Overlaps); i >= 0 {
		return fmt.Sprintf("pod range %s of node %s overlaps the range of services %s: no route leads there", dst, node, c.Services[i])
	}
	if len(c.Pods) > 0 {
		if slices.ContainsFunc(c.Pods, func(p netip.Prefix) bool { return contains(p, dst) }) {
			return ""
		}
		return fmt.Sprintf("pod range %s of node %s is not inside the range of all pods %s: no route leads there", dst, node, joinPrefixes(c.Pods))
	}

	switch {
	case dst.Bits() < least:
		return fmt.Sprintf("pod range %s of node %s is wider than /%d, and the range of all pods is not known (--cluster-cidr): no route leads there", dst, node, least)
	case notUnicast(at):
		return fmt.Sprintf("pod range %s of node %s is none that pods can have: no route leads there", dst, node)
	}
	return ""
}

// contains reports whether inner is outer or a part of it.
func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// notUnicast reports whether no host of a network can have the address.
func notUnicast(a netip.Addr) bool {
	return a.Is4In6() || !a.IsGlobalUnicast() || a.Is4() && (a.As4()[0] == 0 || a.As4()[0] >= 240)
}

// refusesHop returns why packets for a range must not go to the address of its node, or "". A node without an address has none to
// be refused.
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

// RefusesAddress returns why a node cannot have an address, or "".
func (c Cluster) RefusesAddress(node string, at netip.Addr) string {
	if notUnicast(at) {
		return fmt.Sprintf("address %s of node %s is none that a node can have", at, node)
	}
	for _, p := range slices.Concat(c.Pods, c.Services) {
		if p.Contains(at) {
			return fmt.Sprintf("address %s of node %s lies inside %s, which is for pods or services", at, node, p)
		}
	}
	return ""
}

// contested returns the claims that overlap with others. Most clusters have none.
func contested(list []claim) []claim {
	all := make([]netip.Prefix, len(list))
	for i, one := range list {
		all[i] = one.dst
	}
	found := overlaps(all)
	if len(found) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(list), func(one claim) bool { return !found[one.dst] })
}

// rank sorts claims: those that win come first.
func (c Claims) rank(list []claim, self *Node, nodes []Node) {
	if len(list) == 0 {
		return
	}
	usual4, usual6 := usualBits(self, nodes)
	for i := range list {
		one := &list[i]
		usual := usual4
		if one.dst.Addr().Is6() {
			usual = usual6
		}
		one.self, one.wide = one.node == self, one.dst.Bits() < usual
		one.leads = c.Leads != nil && c.Leads(*one.node, one.dst)
	}
	first := func(yes bool) int {
		if yes {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b claim) int {
		return cmp.Or(first(a.self)-first(b.self), first(!a.wide)-first(!b.wide), first(a.leads)-first(b.leads),
			Older(*a.node, *b.node), a.dst.Compare(b.dst))
	})
}

// Older compares nodes by when they joined, then by name. A time that is not known is the latest.
func Older(a, b Node) int {
	if a.Since.IsZero() != b.Since.IsZero() {
		if a.Since.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
}

// usualBits returns the length that a node's range has, of each family: that of this node, or else that of most nodes. Of two lengths that
// as many nodes have it is that of the oldest node.
func usualBits(self *Node, nodes []Node) (four, six int) {
	if self != nil {
		nodes = []Node{*self}
	}
	counts := map[bool]map[int]int{true: {}, false: {}}
	for _, n := range nodes {
		for _, p := range n.PodCIDRs {
			counts[p.Addr().Is4()][p.Bits()]++
		}
	}

	best := map[bool]int{}
	for _, n := range slices.SortedFunc(slices.Values(nodes), Older) {
		for _, p := range n.PodCIDRs {
			is4 := p.Addr().Is4()
			if counts[is4][p.Bits()] > counts[is4][best[is4]] {
				best[is4] = p.Bits()
			}
		}
	}
	return best[true], best[false]
}

// settle goes through claims, those that win first, and adds to reasons why the others are refused.
func settle(list []claim, reasons map[key]string) {
	lengths := map[int]bool{}
	for _, one := range list {
		lengths[one.dst.Bits()] = true
	}
	has := map[netip.Prefix]*claim{}    // that have won
	inside := map[netip.Prefix]*claim{} // a part of the range has won

	for i := range list {
		one := &list[i]
		other := inside[one.dst]
		for bits := range lengths {
			if bits <= one.dst.Bits() && other == nil {
				other = has[netip.PrefixFrom(one.dst.Addr(), bits).Masked()]
			}
		}
		if other != nil {
			reasons[key{one.node.Name, one.dst}] = fmt.Sprintf("pod range %s of node %s overlaps %s of node %s, which keeps its route: no route leads to node %s",
				one.dst, one.node.Name, other.dst, other.node.Name, one.node.Name)
			continue
		}

		has[one.dst] = one
		for bits := range lengths {
			if bits >= one.dst.Bits() {
				continue
			}
			outer := netip.PrefixFrom(one.dst.Addr(), bits).Masked()
			if first := inside[outer]; first == nil || one.dst.Compare(first.dst) < 0 { // so that the text is the same in each plan
				inside[outer] = one
			}
		}
	}
}

// holdAddresses adds to reasons the ranges that hold a node's address and, if the node with the range is older than the one with the
// address, the ranges of the latter.
func holdAddresses(list []claim, nodes []Node, reasons map[key]string) {
	list = slices.SortedFunc(slices.Values(list), func(a, b claim) int { return cmp.Or(Older(*a.node, *b.node), a.dst.Compare(b.dst)) })
	nodes = slices.SortedFunc(slices.Values(nodes), Older)
	lies := func(n Node) bool {
		return len(n.PodCIDRs) > 0 && !slices.ContainsFunc(n.PodCIDRs, func(dst netip.Prefix) bool { return reasons[key{n.Name, dst.Masked()}] == "" })
	}
	for _, one := range list {
		for _, n := range nodes {
			for _, at := range n.addresses() {
				if !one.dst.Contains(at) || reasons[key{one.node.Name, one.dst}] != "" || n.Name != one.node.Name && lies(n) {
					continue
				}
				why := fmt.Sprintf("pod range %s of node %s holds address %s of node %s", one.dst, one.node.Name, at, n.Name)
				if n.Name == one.node.Name || Older(n, *one.node) < 0 {
					reasons[key{one.node.Name, one.dst}] = why
					continue
				}
				for _, dst := range n.PodCIDRs {
					reasons[key{n.Name, dst.Masked()}] = why + ", which joined later"
				}
			}
		}
	}
}

// Own returns why other nodes send nothing to this node, of those reasons that lie in what its Node object says; none: they do.
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
		if why := untrue[key{self.Name, dst.Masked()}]; why != "" && !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
	}
	return reasons
}

// SameAddress returns a text for each address that several nodes say to have, sorted. Packets to the pods of all of them go there.
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
			texts = append(texts, fmt.Sprintf("nodes %s say that they have the address %s: packets to the pods of all go to whoever has it", strings.Join(names, " and "), a))
		}
	}
	slices.Sort(texts)
	return texts
}

// Blame makes refused routes Untrue if there is one that is not refused: what is wrong then lies in what single nodes say. If all are
// refused, it may lie in this host, which is told.
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

func joinPrefixes(list []netip.Prefix) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

// Package podranges decides which nodes may have the pod ranges and addresses that they say to have. A node writes its
// own Node object: its addresses and annotations at any time, and its pod ranges when the object is made. It is pure.
package podranges

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Cluster is what is known of the whole cluster. What nodes say of themselves is held against it.
type Cluster struct {
	// Pods are the ranges of all pods, one for each family; none: not known. Then ranges are held against what no node
	// can have.
	Pods     []netip.Prefix
	Services []netip.Prefix // of all services; none: not known
	// NodeBits4 and NodeBits6 are the lengths of nodes' ranges (--node-cidr-mask-size), of the widest if they differ;
	// 0: not known.
	NodeBits4, NodeBits6 int
}

// Claim is one pod range of one node.
type Claim struct {
	Node  string
	Since time.Time // when the Node object was made; zero: not known
	Dst   netip.Prefix
	Self  bool // of this node, on its own host
	Told  bool // by the node's pods alone: its Node object says something else
	// Usual is the length of ranges of nodes in this cluster; 0: not known. A wider range loses against others.
	Usual int
}

// Key identifies a claim.
type Key struct {
	Node string
	Dst  netip.Prefix
}

// Least lengths of a node's range where the range of all pods is not known: the controller manager gives out no wider
// ones (--node-cidr-mask-size is at most 16 bits longer than --cluster-cidr, and no cluster has a whole /8 for one
// node).
const (
	widest4 = 16
	widest6 = 48
)

// RefusesRange returns why no node may have a range, or "".
func (c Cluster) RefusesRange(node string, dst netip.Prefix) string {
	at, least := dst.Addr(), widest4
	if at.Is6() {
		least = widest6
	}
	if i := slices.IndexFunc(c.Services, dst.Overlaps); i >= 0 {
		return fmt.Sprintf("pod range %s of node %s overlaps the range of services %s: no route leads there", dst, node,
			c.Services[i])
	}
	if len(c.Pods) > 0 {
		if slices.ContainsFunc(c.Pods, func(p netip.Prefix) bool { return contains(p, dst) }) {
			return ""
		}
		return fmt.Sprintf("pod range %s of node %s is not inside the range of all pods %s: no route leads there", dst,
			node, joinPrefixes(c.Pods))
	}

	switch {
	case dst.Bits() < least:
		return fmt.Sprintf(
			"pod range %s of node %s is wider than /%d, and the range of all pods is not known (--cluster-cidr): no route leads there", dst, node, least)
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

// Settle returns why claims are refused, of those that are: of two ranges that overlap one loses. The order in which
// nodes win is:
//
//  1. this node itself, on its own host,
//  2. a range that is not wider than those of other nodes, over a wider one: a wide range would take those of nodes
//     that join later,
//  3. a range of a Node object over one that pods tell alone,
//  4. whoever the host's entries lead to already: a node cannot take by a change what another has,
//  5. whose Node object is older, and of two of one second the one whose name comes first.
//
// leads reports whether the host's entries lead packets for a range to its node already; nil: the host has none. It is
// asked about ranges that overlap only. The texts do not change while the same nodes win.
func Settle(claims []Claim, leads func(Claim) bool) map[Key]string {
	list := contested(claims)
	led := make(map[Key]bool, len(list))
	for _, c := range list {
		led[Key{c.Node, c.Dst}] = leads != nil && leads(c)
	}
	first := func(yes bool) int {
		if yes {
			return 0
		}
		return 1
	}
	wide := func(c Claim) bool { return c.Dst.Bits() < c.Usual }
	slices.SortStableFunc(list, func(a, b Claim) int {
		return cmp.Or(first(a.Self)-first(b.Self), first(!wide(a))-first(!wide(b)), first(!a.Told)-first(!b.Told),
			first(led[Key{a.Node, a.Dst}])-first(led[Key{b.Node, b.Dst}]), Older(a, b), a.Dst.Compare(b.Dst))
	})
	return refused(list)
}

// contested returns the claims that overlap with others. Most clusters have none.
func contested(list []Claim) []Claim {
	all := make([]netip.Prefix, len(list))
	for i, one := range list {
		all[i] = one.Dst
	}
	found := overlaps(all)
	if len(found) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(list), func(one Claim) bool { return !found[one.Dst] })
}

// Older compares nodes by when they joined, then by name. A time that is not known is the latest.
func Older(a, b Claim) int {
	if a.Since.IsZero() != b.Since.IsZero() {
		if a.Since.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Node, b.Node))
}

// SetUsual sets Claim.Usual: the length that is known, or else that of the claims from.
func (c Cluster) SetUsual(claims, from []Claim) {
	four := cmp.Or(c.NodeBits4, usualBits(from, true))
	six := cmp.Or(c.NodeBits6, usualBits(from, false))
	for i := range claims {
		if claims[i].Usual = four; claims[i].Dst.Addr().Is6() {
			claims[i].Usual = six
		}
	}
}

// usualBits returns the length that a node's range has in a family, by claims: the one that most have, and of two that
// as many have that of the oldest node; 0: there is none.
func usualBits(claims []Claim, is4 bool) (bits int) {
	counts := map[int]int{}
	for _, c := range claims {
		if c.Dst.Addr().Is4() == is4 {
			counts[c.Dst.Bits()]++
		}
	}
	for _, c := range slices.SortedFunc(slices.Values(claims), Older) {
		if c.Dst.Addr().Is4() == is4 && counts[c.Dst.Bits()] > counts[bits] {
			bits = c.Dst.Bits()
		}
	}
	return bits
}

// refused goes through claims, those that win first, and returns why the others are refused.
func refused(list []Claim) map[Key]string {
	reasons := map[Key]string{}
	lengths := map[int]bool{}
	for _, one := range list {
		lengths[one.Dst.Bits()] = true
	}
	has := map[netip.Prefix]*Claim{}    // that have won
	inside := map[netip.Prefix]*Claim{} // a part of the range has won

	for i := range list {
		one := &list[i]
		other := inside[one.Dst]
		for bits := range lengths {
			if bits <= one.Dst.Bits() && other == nil {
				other = has[netip.PrefixFrom(one.Dst.Addr(), bits).Masked()]
			}
		}
		if other != nil {
			reasons[Key{one.Node, one.Dst}] = fmt.Sprintf(
				"pod range %s of node %s overlaps %s of node %s, which keeps its route: no route leads to node %s",
				one.Dst, one.Node, other.Dst, other.Node, one.Node)
			continue
		}

		has[one.Dst] = one
		for bits := range lengths {
			if bits >= one.Dst.Bits() {
				continue
			}
			outer := netip.PrefixFrom(one.Dst.Addr(), bits).Masked()
			// so that the text is the same in each plan
			if first := inside[outer]; first == nil || one.Dst.Compare(first.Dst) < 0 {
				inside[outer] = one
			}
		}
	}
	return reasons
}

// overlaps returns the ranges that overlap with another. Of two ranges that overlap one contains the other, so that in
// order of their addresses each has to be compared with those only that contain the one before. It sorts all.
func overlaps(all []netip.Prefix) map[netip.Prefix]bool {
	slices.SortFunc(all, netip.Prefix.Compare)

	found := map[netip.Prefix]bool{}
	var around []netip.Prefix // each contains the next
	for _, p := range all {
		for len(around) > 0 && !around[len(around)-1].Contains(p.Addr()) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 {
			found[p], found[around[len(around)-1]] = true, true
		}
		around = append(around, p)
	}
	return found
}

func joinPrefixes(list []netip.Prefix) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

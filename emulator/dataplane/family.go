package dataplane

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"strings"

	"porthole.dev/porthole/emulator/desired"
)

// family is IPv4 or IPv6. Each has a table of its own with the same sets and chains; rules are written in IPv4's words.
type family struct {
	table     string // of nft, and its word for the header
	addr      string // nft's type of an address
	none      string // an address that no packet has
	translate *strings.Replacer
}

var (
	ip4 = family{table: "ip", addr: "ipv4_addr", none: "255.255.255.255", translate: strings.NewReplacer()}
	ip6 = family{table: "ip6", addr: "ipv6_addr", none: "::",
		translate: strings.NewReplacer("ip saddr", "ip6 saddr", "ip daddr", "ip6 daddr",
			"127.0.0.0/8", "::1", "ipv4_addr", "ipv6_addr")}
)

// has reports whether an address is of the family.
func (f family) has(a netip.Addr) bool { return a.Is4() && f == ip4 || a.Is6() && f == ip6 }

// usable reports whether an address is of the family and says something.
func (f family) usable(a netip.Addr) bool { return f.has(a) && !a.IsUnspecified() }

func (f family) words(rules []string) []string {
	out := make([]string, len(rules))
	for i, r := range rules {
		out[i] = f.translate.Replace(r)
	}
	return out
}

// mark of an address: itself, or a sum of it, so it means the same after a restart.
func (f family) mark(addr netip.Addr) uint32 {
	if f == ip4 {
		return binary.BigEndian.Uint32(addr.AsSlice())
	}
	h := fnv.New32a()
	h.Write(addr.AsSlice())
	return h.Sum32() | 1
}

// node is the node's own address.
func (f family) node(facts Facts) netip.Addr {
	if f == ip6 {
		return facts.Node6
	}
	return facts.Node
}

// sixIn reports whether IPv6 is carried in a network: with an IPv6 subnet, and not in an overlay, as on Windows.
func sixIn(n *desired.Network) bool {
	if n.Type != l2BridgeType {
		return false
	}
	for _, s := range n.Subnets {
		if s.Prefix.Addr().Is6() {
			return true
		}
	}
	return false
}

// addressOf is the endpoint's first address of a family.
func (f family) addressOf(e *desired.Endpoint) netip.Addr {
	for _, a := range e.Addrs {
		if f.has(a.Addr()) {
			return a.Addr()
		}
	}
	return netip.Addr{}
}

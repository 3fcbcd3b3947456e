package table

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"strings"
)

// Family is IPv4 or IPv6. Each has a table of its own with the same sets and chains; rules are written in IPv4's words.
type Family struct {
	Table     string // of nft, and its word for the header
	addr      string // nft's type of an address
	none      string // an address that no packet has
	translate *strings.Replacer
}

// The two families.
var (
	IPv4 = Family{Table: "ip", addr: "ipv4_addr", none: "255.255.255.255", translate: strings.NewReplacer()}
	IPv6 = Family{Table: "ip6", addr: "ipv6_addr", none: "::",
		translate: strings.NewReplacer("ip saddr", "ip6 saddr", "ip daddr", "ip6 daddr",
			"127.0.0.0/8", "::1", "ipv4_addr", "ipv6_addr")}
)

// Has reports whether an address is of the family.
func (f Family) Has(a netip.Addr) bool { return a.Is4() && f == IPv4 || a.Is6() && f == IPv6 }

// Usable reports whether an address is of the family and says something.
func (f Family) Usable(a netip.Addr) bool { return f.Has(a) && !a.IsUnspecified() }

// First returns the first address of the family; zero: there is none.
func (f Family) First(addrs []netip.Prefix) netip.Addr {
	for _, a := range addrs {
		if f.Has(a.Addr()) {
			return a.Addr()
		}
	}
	return netip.Addr{}
}

// Mark of an address: itself, or a sum of it, so it means the same after a restart.
func (f Family) Mark(addr netip.Addr) uint32 {
	if f == IPv4 {
		return binary.BigEndian.Uint32(addr.AsSlice())
	}
	h := fnv.New32a()
	h.Write(addr.AsSlice())
	return h.Sum32() | 1
}

func (f Family) words(rules []string) []string {
	out := make([]string, len(rules))
	for i, r := range rules {
		out[i] = f.translate.Replace(r)
	}
	return out
}

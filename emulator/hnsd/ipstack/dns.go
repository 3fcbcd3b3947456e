package ipstack

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
)

// DNSServers are the DNS servers that the network gives the host's first card together with its address, as DHCP does,
// in their order. Nil is not empty: nil leaves the adapters the servers of this machine's resolv.conf; empty, there
// are none.
type DNSServers []netip.Addr

// Words in place of a list of addresses: no servers, and those of the machine.
const (
	dnsNone    = "none"
	dnsMachine = "machine"
)

// ParseDNS reads addresses separated by commas, "none", or "machine" for nil.
func ParseDNS(text string) (DNSServers, error) {
	switch text {
	case dnsNone:
		return DNSServers{}, nil
	case dnsMachine:
		return nil, nil
	}
	list := DNSServers{}
	// An empty word is refused as well, so that "" is no list.
	for _, word := range strings.Split(text, ",") {
		addr, err := netip.ParseAddr(word)
		if err != nil {
			return nil,
				fmt.Errorf(
					"%q is not the address of a DNS server: give addresses separated by commas, such as 10.99.0.53, or %q", word, dnsNone)
		}
		list = append(list, addr)
	}
	return list, list.Check()
}

// Check returns an error for what Windows does not take as a DNS server.
func (d DNSServers) Check() error {
	for i, addr := range d {
		if !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() || addr.Is4In6() || addr.Zone() != "" {
			return fmt.Errorf("%s cannot be the address of a DNS server", addr)
		}
		if slices.Contains(d[:i], addr) {
			return fmt.Errorf("the DNS server %s is there twice", addr)
		}
	}
	return nil
}

// String is what ParseDNS reads.
func (d DNSServers) String() string {
	if d == nil {
		return dnsMachine
	}
	if len(d) == 0 {
		return dnsNone
	}
	var words []string
	for _, addr := range d {
		words = append(words, addr.String())
	}
	return strings.Join(words, ",")
}

// dns is which servers the network gives at the moment. The zero value leaves the adapters those of the machine.
type dns struct{ now atomic.Pointer[DNSServers] }

// get is nil for the servers of the machine.
func (d *dns) get() DNSServers {
	if list := d.now.Load(); list != nil {
		return *list
	}
	return nil
}

func (d *dns) set(list DNSServers) { d.now.Store(&list) }

// siteLocalDNS are shown for an adapter that has no DNS server. Nobody answers there.
var siteLocalDNS = DNSServers{netip.MustParseAddr("fec0:0:0:ffff::1"), netip.MustParseAddr("fec0:0:0:ffff::2"),
	netip.MustParseAddr("fec0:0:0:ffff::3")}

// lines returns the lines of wire.Adapters about DNS servers. The network's are there while the card has an IPv4
// address, because one answer of DHCP gives both.
func (d *dns) lines(list []adapter, uplink string) string {
	given := d.get()
	if given == nil {
		return ""
	}
	var b strings.Builder
	// Adapter 0 says that the lines replace the servers of the machine.
	b.WriteString("dns\t0\n")
	for _, a := range list {
		if a.Unbound {
			continue
		}
		servers := siteLocalDNS
		first := a.Network == "" && a.link.Name == uplink
		if first && len(given) > 0 &&
			slices.ContainsFunc(a.link.Addrs,
				func(p netip.Prefix) bool { return p.Addr().Is4() && p.Addr().IsGlobalUnicast() }) {
			servers = given
		}
		for _, addr := range servers {
			fmt.Fprintf(&b, "dns\t%d\t%s\n", a.Index, hex.EncodeToString(addr.AsSlice()))
		}
	}
	return b.String()
}

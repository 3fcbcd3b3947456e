package render

import (
	"net/netip"

	"porthole.dev/porthole/emulator/desired"
)

// Types of networks, as HNS names them.
const (
	l2Bridge    = "L2Bridge"
	overlayType = "Overlay"
	natType     = "NAT"
	Transparent = "Transparent"
)

// sixIn reports whether IPv6 is carried in a network: with an IPv6 subnet, and not in an overlay, as on Windows.
func sixIn(n *desired.Network) bool {
	if n.Type != l2Bridge {
		return false
	}
	for _, s := range n.Subnets {
		if s.Prefix.Addr().Is6() {
			return true
		}
	}
	return false
}

// guestAddrs are the endpoint's addresses as far as the network carries their family, with the subnet's length where
// the endpoint has none.
func guestAddrs(e *desired.Endpoint, n *desired.Network) []netip.Prefix {
	var addrs []netip.Prefix
	for _, a := range e.Addrs {
		if !a.Addr().Is4() && !sixIn(n) {
			continue
		}
		bits := a.Bits()
		for _, s := range n.Subnets {
			if s.Prefix.Contains(a.Addr()) && (bits <= 0 || bits == a.Addr().BitLen()) {
				bits = s.Prefix.Bits()
			}
		}
		addrs = append(addrs, netip.PrefixFrom(a.Addr(), bits))
	}
	return addrs
}

// gatewayOf is the network's gateway for addr: the subnet's own word, else its first address.
func gatewayOf(n *desired.Network, addr netip.Addr) netip.Addr {
	for _, s := range n.Subnets {
		if !s.Prefix.Contains(addr) {
			continue
		}
		if s.Gateway.IsValid() && s.Prefix.Contains(s.Gateway) {
			return s.Gateway
		}
		return s.Prefix.Masked().Addr().Next()
	}
	return netip.Addr{}
}

// WithNAT returns the endpoint with what its network does without a policy: in a NAT network all that leaves the host
// has the host's address.
func WithNAT(e *desired.Endpoint, n *desired.Network) *desired.Endpoint {
	if n.Type != natType || len(e.OutboundNAT) > 0 {
		return e
	}
	own := *e
	own.OutboundNAT = []desired.OutboundNAT{{}}
	return &own
}

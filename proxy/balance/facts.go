package balance

import (
	"net/netip"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// Facts are what plans depend on beside frontends and HNS's objects.
type Facts struct {
	Network hns.Network
	Version hns.Version

	// DSR asks for direct server return on cluster IPs, where HNS has it.
	DSR bool
	// SourceVIP is the address that load balancers of an overlay network use towards backends; zero on other networks.
	SourceVIP netip.Addr
	// NodeAddrs are the addresses at which programs of the node shall reach node ports; none where that is not wanted.
	NodeAddrs []netip.Addr
	// HostMAC is the hardware address of the node's adapter, for the node's own endpoints on overlay networks.
	HostMAC string
	// HostAddr is the address of the host's own endpoint in the network; zero if it has none.
	HostAddr netip.Addr
	// RelayAddr is where the relay of the proxy listens: HostAddr, or on an overlay network the node's address if
	// OverlayRelay allows that; zero: nowhere.
	RelayAddr    netip.Addr
	OverlayRelay bool
	// NodeAccess makes load balancer addresses work for programs of the node.
	NodeAccess bool
	// AccessRefused has the frontends that do without node access because HNS refused it, each with HNS's error.
	AccessRefused map[service.Key]string
	// ModifyLies: this HNS answers success to a modification and changes nothing (kubernetes/kubernetes#131466).
	ModifyLies bool
}

// refusedAccess reports whether AccessRefused has a frontend.
func (f *Facts) refusedAccess(key service.Key) bool { return f.AccessRefused[key] != "" }

// Overlay reports whether the network is an overlay.
func (f *Facts) Overlay() bool { return f.Network.Type == hns.Overlay }

// canModify reports whether a load balancer can be changed in place.
func (f *Facts) canModify() bool { return f.Version.CanModifyLoadBalancer() && !f.ModifyLies }

// hasFamily reports whether this HNS and this network serve the address family.
func (f *Facts) hasFamily(ipv6 bool) bool {
	if !ipv6 {
		return true
	}
	if !f.Version.HasIPv6() || f.Overlay() {
		return false
	}
	if len(f.Network.Subnets) == 0 {
		return true // HNS has not listed the subnets yet; if IPv6 is missing, HNS refuses the load balancer
	}

	for _, s := range f.Network.Subnets {
		if s.Prefix.Addr().Is6() {
			return true
		}
	}
	return false
}

// Provider returns the host behind an address of an overlay network. It returns the node's own address and false if no
// remote subnet covers addr: such an address is outside the overlay, and the node itself forwards to it.
func (f *Facts) Provider(addr netip.Addr) (provider netip.Addr, covered bool) {
	for _, r := range f.Network.RemoteSubnets {
		if r.Prefix.Contains(addr) {
			return r.Provider, true
		}
	}
	return f.Network.Management, false
}

package platform

import "net/netip"

// NetworkState is what a host's IP stack has, for diagnosis.
type NetworkState struct {
	Interfaces []NetworkInterface
	Routes     []NetworkRoute
	Neighbours []NetworkNeighbour
	// Forwards are the entries of VXLAN devices (Linux).
	Forwards []NetworkForward
	// NeighboursError says why Neighbours could not be read; the rest is there all the same. Wine has no such table.
	NeighboursError error
}

// NetworkInterface is an interface of the host.
type NetworkInterface struct {
	Name       string
	MAC        string // in Go's form; empty: none
	Up         bool
	MTU        int
	Addresses  []netip.Prefix
	Forwarding bool // IPv4 packets that come in here are passed on
	// Of VXLAN devices (Linux): the number of the network, the UDP port and the own end. A port of zero is that of
	// other interfaces.
	VNI        uint32
	VXLANPort  uint16
	VXLANLocal netip.Addr
}

// NetworkForward says to which host a VXLAN device sends what is for a MAC address.
type NetworkForward struct {
	MAC       string
	To        netip.Addr
	Interface string
}

// NetworkRoute is one next hop of a route of the host's main table. A route with several next hops is there once for
// each.
type NetworkRoute struct {
	Destination netip.Prefix
	NextHop     netip.Addr // zero: on link
	Interface   string
	Metric      uint32
	Protocol    int // Linux: who made the route (RTPROT_* of rtnetlink); Windows: 0
}

// NetworkNeighbour is an entry of the host's ARP or neighbour table. Failed: nobody answered.
type NetworkNeighbour struct {
	Address           netip.Addr
	MAC               string
	Interface         string
	Failed, Permanent bool
}

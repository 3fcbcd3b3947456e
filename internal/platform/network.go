package platform

import "net/netip"

// NetworkState is what a host's IP stack has, for diagnosis.
type NetworkState struct {
	Interfaces []NetworkInterface
	Routes     []NetworkRoute
	Neighbours []NetworkNeighbour
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
}

// NetworkRoute is an entry of the host's route table.
type NetworkRoute struct {
	Destination netip.Prefix
	NextHop     netip.Addr // zero: on link
	Interface   string
	Metric      uint32
	Protocol    int // Linux
}

// NetworkNeighbour is an entry of the host's ARP or neighbour table. Failed: nobody answered.
type NetworkNeighbour struct {
	Address           netip.Addr
	MAC               string
	Interface         string
	Failed, Permanent bool
}

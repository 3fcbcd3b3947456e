package platform

import "net/netip"

// HostAddress is one unicast address of this host.
type HostAddress struct {
	// Interface is its name: of the link on Linux, the friendly name ("Ethernet 2") on Windows.
	Interface string
	Addr      netip.Addr // without zone
	Bits      int        // of the network that it says is reached directly
}

// Addresses are this host's unicast addresses. The zero value is usable; it may be used from many goroutines.
type Addresses struct{}

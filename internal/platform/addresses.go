package platform

import "net/netip"

// HostAddress is one unicast address of this host.
type HostAddress struct {
	// Interface is the name of the link on Linux, the friendly name ("Ethernet 2") on Windows.
	Interface string
	Addr      netip.Addr // without zone
	Bits      int        // of the prefix that is on-link
}

// Addresses are this host's unicast addresses. The zero value is usable, and safe for concurrent use.
type Addresses struct{}

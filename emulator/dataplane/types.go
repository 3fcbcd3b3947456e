// Package dataplane carries the networks of one emulated Windows host on a Linux kernel: bridges, veths, guest
// namespaces, nftables. It knows nothing of HNS documents; hnsd hands it a desired.State and gets each object's error
// back.
package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
)

const (
	l2BridgeType    = "L2Bridge"
	overlayType     = "Overlay"
	natType         = "NAT"
	transparentType = "Transparent"
)

// HostRoute is one route of the host's own table, as programs of the host name it: by destination, next hop and link.
type HostRoute struct {
	Prefix  netip.Prefix
	NextHop netip.Addr // unspecified or zero: on the link itself
	Link    int        // interface index
	Metric  uint32
}

func (r HostRoute) String() string {
	return fmt.Sprintf("%s via %s link %d", r.Prefix, r.NextHop, r.Link)
}

// Errors of changes to the host's routes.
var (
	ErrRouteExists = errors.New("it exists")
	ErrNoRoute     = errors.New("there is none")
)

// EventType has the numbers of Windows' MIB_NOTIFICATION_TYPE.
type EventType uint32

const (
	EventChange EventType = iota
	EventAdd
	EventDelete
)

// HostEvent is one change of the host's IP stack. For an address Prefix is that and its length; for an interface only
// Link counts.
type HostEvent struct {
	Type EventType
	HostRoute
}

// Interface is the settings of one interface of the host for one family.
type Interface struct {
	// Forwarding reports whether packets in transit that come in by the interface are forwarded. It is off on a new
	// interface.
	Forwarding bool
	MTU        int
}

// Link is one interface of the host as Linux has it.
type Link struct {
	Index    int
	Name     string
	Loopback bool
	Tap      bool // made by a program, such as a port of Open vSwitch
	Card     bool // a network card: Ethernet, and not made by a data plane
	Addrs    []netip.Prefix
}

// Facts are what a rendering needs to know about the machine.
type Facts struct {
	Uplink   string // interface that leads out of the node
	Node     netip.Addr
	Node6    netip.Addr // zero: none
	MTU      int        // of the uplink
	NetnsDir string     // where own namespaces are kept
}

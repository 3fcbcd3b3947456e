// Package hoststack is the IP stack of an emulated host itself, as programs of the host see and change it: links,
// addresses, routes, which interfaces forward packets, and what a network card loses while a virtual switch takes it
// over. None of it is part of a desired.State: it changes call by call, and stays when the daemon ends.
package hoststack

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Route is one route of the host's own table, as programs of the host name it: by destination, next hop and link.
type Route struct {
	Prefix  netip.Prefix
	NextHop netip.Addr // unspecified or zero: on the link itself
	Link    int        // interface index
	Metric  uint32
}

func (r Route) String() string {
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

// Event is one change of the host's IP stack. For an address Prefix is that and its length; for an interface only
// Link counts.
type Event struct {
	Type EventType
	Route
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

// Errors of changes to the host's addresses.
var (
	ErrAddressExists = errors.New("the host has it already")
	ErrNoAddress     = errors.New("the interface does not have it")
	ErrNoInterface   = errors.New("there is no such interface")
)

// Card is what the host's IP stack has on a network card, by Linux' name of the card.
type Card struct {
	Link  string         `json:"link"`
	Addrs []netip.Prefix `json:"addresses"`
	// Routes are those that come back with the addresses: default routes, and those of the host's administrator unless
	// a takeover loses them too.
	Routes []CardRoute `json:"routes"`
}

// Node returns the node's addresses on the card; other is that of IPv4 if the card has none.
func (s Card) Node(other netip.Addr) (four, six netip.Addr) {
	four = other
	for _, a := range slices.Backward(s.Addrs) {
		if a.Addr().Is4() {
			four = a.Addr()
		} else {
			six = a.Addr()
		}
	}
	return four, six
}

// CardRoute is one route by a network card.
type CardRoute struct {
	Prefix   netip.Prefix `json:"prefix"`
	NextHop  netip.Addr   `json:"nextHop,omitzero"`
	Metric   int          `json:"metric,omitempty"`
	Protocol int          `json:"protocol,omitempty"`
}

// MaxFlap is the longest that a network card may be without its addresses while HNS puts a switch on it (a takeover,
// porthole up --windows-nic-flap). A longer one would be a mistake in a flag.
const MaxFlap = time.Minute

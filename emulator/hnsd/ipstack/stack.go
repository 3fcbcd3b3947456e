// Package ipstack answers what the host's programs ask of its IP stack: adapters, addresses, routes, settings of
// interfaces, and their events. It is no part of HNS, but what HNS does changes it, and programs reach it by the same
// protocol.
package ipstack

import "porthole.dev/porthole/emulator/hnsd"

// Stack is the IP stack of one host. It owns what is shown of it beside what the data plane and the objects of HNS
// have: the DNS servers that the network gives, the links that were read a moment ago, and who is told of events. It is
// safe for concurrent use.
type Stack struct {
	plane    any // has links, addresses, interfaces, stack, or not
	uplink   string
	state    func() *hnsd.State
	takeover *Takeover

	seen  seenLinks
	shown shown
	dns   dns
}

// Options of a Stack.
type Options struct {
	Plane    any                // the data plane; required
	Uplink   string             // Linux' name of the first network card; "": none is known
	State    func() *hnsd.State // the objects of HNS; required
	Takeover *Takeover          // nil: network cards are taken over without a trace
}

// New returns the stack of a host whose DNS servers are those of the machine.
func New(o Options) *Stack {
	return &Stack{plane: o.Plane, uplink: o.Uplink, state: o.State, takeover: o.Takeover}
}

// DNS returns the servers that the network gives.
func (s *Stack) DNS() DNSServers { return s.dns.get() }

// SetDNS gives the host other servers. Programs are not told: Windows has no notification for it.
func (s *Stack) SetDNS(list DNSServers) { s.dns.set(list) }

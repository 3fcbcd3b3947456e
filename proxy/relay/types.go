package relay

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Protocol of a listener.
type Protocol uint8

// Protocols, by their IP numbers.
const (
	TCP Protocol = 6
	UDP Protocol = 17
)

func (p Protocol) String() string {
	switch p {
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}

// Endpoint is what a listener listens on. The address is a specific one: answers must leave with it as their source.
type Endpoint struct {
	Protocol Protocol
	netip.AddrPort
}

func (e Endpoint) String() string { return fmt.Sprintf("%s/%s", e.AddrPort, e.Protocol) }

// network is the name that package net has for it.
func (e Endpoint) network() string {
	name := "tcp"
	if e.Protocol == UDP {
		name = "udp"
	}
	if e.Addr().Is4() {
		return name + "4"
	}
	return name + "6"
}

// Config of a frontend. Its slices are kept and handed out again: nobody may change them.
type Config struct {
	Backends []netip.AddrPort
	// Inside are the backends for clients that Options.Inside knows; nil: Backends are for everybody.
	Inside []netip.AddrPort
	// Sources admits clients of these prefixes only; empty admits all. Others' connections are reset and their datagrams
	// dropped.
	Sources []netip.Prefix
	// Affinity keeps a client's address on one backend for this long after its latest connection; 0: each connection
	// goes to the next backend.
	Affinity time.Duration
}

// Equal compares all of it; backends in another order are another configuration.
func (c Config) Equal(d Config) bool {
	return slices.Equal(c.Backends, d.Backends) && slices.Equal(c.Inside, d.Inside) && (c.Inside == nil) == (d.Inside == nil) &&
		slices.Equal(c.Sources, d.Sources) && c.Affinity == d.Affinity
}

// has tells whether the backend is one for anybody.
func (c Config) has(backend netip.AddrPort) bool {
	return slices.Contains(c.Backends, backend) || slices.Contains(c.Inside, backend)
}

// Options of a Relay. The zero value is usable.
type Options struct {
	// MaxConns bounds the open TCP connections from clients; 0 means 10,000. On Linux each holds six file descriptors
	// (two sockets, and two pipes of splice).
	MaxConns int
	// MaxFlows bounds the UDP flows, each a socket with a port of its own; 0 means 8,192: half of the dynamic ports that
	// Windows has (49152 to 65535, RFC 6335).
	MaxFlows int
	// DialTimeout is how long one backend may take to accept; 0 means 3 s: a lost SYN is sent again after 1 s (RFC 6298).
	DialTimeout time.Duration
	// FlowIdle ends a UDP flow that nobody used; StreamIdle is that for one which carried packets both ways for more than
	// 2 s. 0 means 30 s and 120 s, as Linux' connection tracking has them (nf_conntrack_udp_timeout and _stream), which is
	// what UDP through other service proxies meets.
	FlowIdle, StreamIdle time.Duration
	// Inside tells which clients are of the cluster, for Config.Inside; nil: none. It must not block.
	Inside func(netip.Addr) bool
	// Ended is called when a listener ends by itself, in a goroutine of its own; nil: nobody is told.
	Ended func(Endpoint, error)
}

func (o Options) withDefaults() Options {
	number := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	duration := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	number(&o.MaxConns, 10_000)
	number(&o.MaxFlows, 8_192)
	duration(&o.DialTimeout, 3*time.Second)
	duration(&o.FlowIdle, 30*time.Second)
	duration(&o.StreamIdle, 120*time.Second)
	return o
}

// State is what a Relay does now. The maps are the caller's, the configurations are not.
type State struct {
	Frontends map[string]Config
	Listeners map[Endpoint]string // to the frontend's name
	// Open counts the open connections of clients to each local address.
	Open map[netip.Addr]int
}

// Stats of one frontend since it was made.
type Stats struct {
	Conns   uint64 // TCP connections that a backend took
	Retries uint64 // backends that did not take a connection or a datagram
	Failed  uint64 // connections that no backend took
	Flows   uint64 // UDP flows
	Dropped uint64 // datagrams for which there was no backend, no room or no way
	Open    int    // open TCP connections and UDP flows
}

package relay

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/hns"
)

// Endpoint is what a listener listens on. The address must not be unspecified: answers leave with it as their source.
type Endpoint struct {
	Protocol hns.Protocol
	netip.AddrPort
}

func (e Endpoint) String() string {
	return fmt.Sprintf("%s/%s", e.AddrPort, strings.ToUpper(e.Protocol.String()))
}

// network returns the endpoint's network as package net calls it.
func (e Endpoint) network() string {
	name := "tcp"
	if e.Protocol == hns.UDP {
		name = "udp"
	}
	if e.Addr().Is4() {
		return name + "4"
	}
	return name + "6"
}

// Config of a frontend. Its slices are kept and returned again, so they must not be changed.
type Config struct {
	Backends []netip.AddrPort
	// Inside are the backends for clients that Options.Inside reports; nil: Backends are for every client.
	Inside []netip.AddrPort
	// Sources admits clients of these prefixes only; empty admits all. Connections of other clients are reset, and
	// their datagrams dropped.
	Sources []netip.Prefix
	// Affinity keeps a client's address on one backend for this long after its latest connection; 0: each connection
	// goes to the next backend.
	Affinity time.Duration
}

// Equal reports whether two configurations are the same, with their backends in the same order.
func (c Config) Equal(d Config) bool {
	return slices.Equal(c.Backends, d.Backends) && slices.Equal(c.Inside, d.Inside) &&
		(c.Inside == nil) == (d.Inside == nil) &&
		slices.Equal(c.Sources, d.Sources) && c.Affinity == d.Affinity
}

// has reports whether the backend serves any clients.
func (c Config) has(backend netip.AddrPort) bool {
	return slices.Contains(c.Backends, backend) || slices.Contains(c.Inside, backend)
}

// Options of a Relay. The zero value is usable.
type Options struct {
	// MaxConns bounds the open TCP connections from clients; 0 means 10,000. On Linux each holds six file descriptors
	// (two sockets, and two pipes of splice).
	MaxConns int
	// MaxFlows bounds the UDP flows, each a socket with a port of its own; 0 means 8,192: half of the dynamic ports
	// that Windows has (49152 to 65535, RFC 6335).
	MaxFlows int
	// DialTimeout is how long one backend may take to accept; 0 means 3 s: a lost SYN is sent again after 1 s (RFC
	// 6298).
	DialTimeout time.Duration
	// TCPIdle resets a TCP connection that carried no byte for this long, and for up to half as long again; 0 means 24
	// h, upstream's timeout of established connections (conntrack.tcpEstablishedTimeout of kube-proxy).
	TCPIdle time.Duration
	// FlowIdle ends a UDP flow that carried no packet for this long; StreamIdle ends one that had carried packets both
	// ways for more than 2 s. 0 means 30 s and 120 s, the timeouts of Linux' connection tracking
	// (nf_conntrack_udp_timeout and _stream), which UDP through other service proxies has.
	FlowIdle, StreamIdle time.Duration
	// Inside reports whether a client is inside the cluster, for Config.Inside; nil: none is. It must not block.
	Inside func(netip.Addr) bool
	// Ended is called in a goroutine of its own when a listener fails; it may be nil.
	Ended func(Endpoint, error)
}

// withDefaults returns the options with the defaults in place of zeros. Options says where each number is from.
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
	duration(&o.TCPIdle, 24*time.Hour)
	duration(&o.FlowIdle, 30*time.Second)
	duration(&o.StreamIdle, 120*time.Second)
	return o
}

// State is what a Relay does now. The caller owns the maps, but must not change the configurations.
type State struct {
	Frontends map[string]Config
	Listeners map[Endpoint]string // to the frontend's name
	// Open counts the open connections of clients to each local address.
	Open map[netip.Addr]int
}

// Stats of one frontend since it was created.
type Stats struct {
	Conns   uint64 // TCP connections that a backend took
	Retries uint64 // backends that did not take a connection or a datagram
	Failed  uint64 // connections that no backend took
	Flows   uint64 // UDP flows
	Dropped uint64 // datagrams without a backend, without room for a flow, or that could not be sent
	Open    int    // open TCP connections and UDP flows
}

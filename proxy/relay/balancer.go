package relay

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// maxSticky bounds the clients that one frontend remembers for affinity: 100,000 are about 10 MB.
const maxSticky = 100_000

// penalty is how long a backend that did not take a connection comes after the others. It keeps one dead backend from
// costing every client in turn a timeout, and UDP clients a query: hosts send few of the ICMP messages that tell of a port
// where nobody listens (Linux: one a second after a burst, net.ipv4.icmp_ratelimit). Its length is a choice.
const penalty = 5 * time.Second

// Balancer chooses backends in turn, or the same one for one client as long as affinity lasts. It may be used from many
// goroutines.
type Balancer struct {
	mu     sync.Mutex
	config Config
	turn   int
	sticky map[netip.Addr]sticky
	shy    map[netip.AddrPort]time.Time // backends that did not take a connection, until when they come last
	inside func(netip.Addr) bool
	now    func() time.Time
}

type sticky struct {
	backend netip.AddrPort
	until   time.Time
}

func newBalancer(inside func(netip.Addr) bool, now func() time.Time) *Balancer {
	return &Balancer{inside: inside, now: now, turn: rand.IntN(1 << 16)} // not all nodes of a cluster begin with the same backend
}

// Set replaces the configuration. Clients stay with their backends as far as those are still there.
func (b *Balancer) Set(c Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.config = c
	if c.Affinity == 0 {
		b.sticky = nil
	}
	for client, s := range b.sticky {
		if !c.has(s.backend) {
			delete(b.sticky, client)
		}
	}
	for backend := range b.shy {
		if !c.has(backend) {
			delete(b.shy, backend)
		}
	}
}

// Refused notes that a backend did not take a connection.
func (b *Balancer) Refused(backend netip.AddrPort) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shy == nil {
		b.shy = map[netip.AddrPort]time.Time{}
	}
	if b.config.has(backend) {
		b.shy[backend] = b.now().Add(penalty)
	}
}

// Config is what was set last.
func (b *Balancer) Config() Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.config
}

// has tells whether the backend is one of those now.
func (b *Balancer) has(backend netip.AddrPort) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.config.has(backend)
}

// Pick chooses a backend for a new connection of the client, none of those that were tried for it already. false: there
// is no other, or none for this client. With affinity the client is tied to the choice, and untied from one that it
// tried in vain.
func (b *Balancer) Pick(client netip.Addr, tried []netip.AddrPort) (netip.AddrPort, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &b.config
	if len(c.Sources) > 0 && !slices.ContainsFunc(c.Sources, func(p netip.Prefix) bool { return p.Contains(client) }) {
		return netip.AddrPort{}, false
	}
	backends := c.Backends
	if c.Inside != nil && b.inside != nil && b.inside(client) {
		backends = c.Inside
	}
	backend, ok := b.choose(backends, client, func(a netip.AddrPort) bool { return slices.Contains(tried, a) || b.isShy(a) })
	if !ok {
		backend, ok = b.choose(backends, client, func(a netip.AddrPort) bool { return slices.Contains(tried, a) })
	}
	if ok && c.Affinity > 0 {
		b.tie(client, backend)
	}
	return backend, ok
}

// choose takes the client's own backend, else the next one.
func (b *Balancer) choose(backends []netip.AddrPort, client netip.Addr, out func(netip.AddrPort) bool) (netip.AddrPort, bool) {
	if b.config.Affinity > 0 {
		s, ok := b.sticky[client]
		if ok && b.now().Before(s.until) && slices.Contains(backends, s.backend) && !out(s.backend) {
			return s.backend, true
		}
	}
	for range backends {
		backend := backends[b.turn%len(backends)]
		b.turn++
		if !out(backend) {
			return backend, true
		}
	}
	return netip.AddrPort{}, false
}

func (b *Balancer) isShy(backend netip.AddrPort) bool {
	until, ok := b.shy[backend]
	if ok && !b.now().Before(until) {
		delete(b.shy, backend)
		return false
	}
	return ok
}

func (b *Balancer) tie(client netip.Addr, backend netip.AddrPort) {
	now := b.now()
	if b.sticky == nil {
		b.sticky = map[netip.Addr]sticky{}
	}
	if _, known := b.sticky[client]; !known && len(b.sticky) >= maxSticky {
		b.forget(now)
	}
	b.sticky[client] = sticky{backend: backend, until: now.Add(b.config.Affinity)}
}

// forget makes room: what has run out goes, and if that is nothing, some client that comes first.
func (b *Balancer) forget(now time.Time) {
	for client, s := range b.sticky {
		if !now.Before(s.until) {
			delete(b.sticky, client)
		}
	}
	for client := range b.sticky {
		if len(b.sticky) < maxSticky {
			return
		}
		delete(b.sticky, client)
	}
}

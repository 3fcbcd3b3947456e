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

// penalty is how long a backend that refused a connection comes after the others. Without it one dead backend would
// cost every client in turn a timeout, and UDP clients a query: hosts limit the ICMP messages that report a closed
// port (Linux: one a second after a burst, net.ipv4.icmp_ratelimit). The length is our choice.
const penalty = 5 * time.Second

// Balancer chooses backends in turn, or the same one for one client while affinity lasts. It is safe for concurrent
// use.
type Balancer struct {
	mu     sync.Mutex
	config Config
	turn   int
	sticky map[netip.Addr]sticky
	// penalized backends refused a connection; until the time they come last.
	penalized map[netip.AddrPort]time.Time
	inside    func(netip.Addr) bool
	now       func() time.Time
}

type sticky struct {
	backend netip.AddrPort
	until   time.Time
}

func newBalancer(inside func(netip.Addr) bool, now func() time.Time) *Balancer {
	// so that not all nodes of a cluster begin with the same backend
	return &Balancer{inside: inside, now: now, turn: rand.IntN(1 << 16)}
}

// Set replaces the configuration. Clients stay with backends that are still in it.
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
	for backend := range b.penalized {
		if !c.has(backend) {
			delete(b.penalized, backend)
		}
	}
}

// Refused notes that a backend refused a connection or did not answer.
func (b *Balancer) Refused(backend netip.AddrPort) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.penalized == nil {
		b.penalized = map[netip.AddrPort]time.Time{}
	}
	if b.config.has(backend) {
		b.penalized[backend] = b.now().Add(penalty)
	}
}

// Config returns what was set last.
func (b *Balancer) Config() Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.config
}

// has reports whether the backend is in the configuration.
func (b *Balancer) has(backend netip.AddrPort) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.config.has(backend)
}

// Pick chooses a backend for a new connection of the client, other than those that were tried. It returns false if
// there is no other, or none for this client. With affinity the client is bound to the choice, in place of a backend
// that it tried without success.
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
	backend, ok := b.choose(backends, client,
		func(a netip.AddrPort) bool { return slices.Contains(tried, a) || b.isPenalized(a) })
	if !ok {
		backend, ok = b.choose(backends, client, func(a netip.AddrPort) bool { return slices.Contains(tried, a) })
	}
	if ok && c.Affinity > 0 {
		b.bind(client, backend)
	}
	return backend, ok
}

// choose returns the client's own backend, or else the next one, leaving out those that out reports.
func (b *Balancer) choose(backends []netip.AddrPort, client netip.Addr, out func(netip.AddrPort) bool) (netip.AddrPort,
	bool) {
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

func (b *Balancer) isPenalized(backend netip.AddrPort) bool {
	until, ok := b.penalized[backend]
	if ok && !b.now().Before(until) {
		delete(b.penalized, backend)
		return false
	}
	return ok
}

func (b *Balancer) bind(client netip.Addr, backend netip.AddrPort) {
	now := b.now()
	if b.sticky == nil {
		b.sticky = map[netip.Addr]sticky{}
	}
	if _, known := b.sticky[client]; !known && len(b.sticky) >= maxSticky {
		b.forget(now)
	}
	b.sticky[client] = sticky{backend: backend, until: now.Add(b.config.Affinity)}
}

// forget makes room for one more client: it drops expired ones, and if none is, arbitrary ones.
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

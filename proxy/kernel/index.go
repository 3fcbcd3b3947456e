package kernel

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// Listed is what HNS has, as far as this network is concerned.
type Listed struct {
	Endpoints     []hns.Endpoint
	LoadBalancers []hns.LoadBalancer
}

// endpoint is what a proxy needs to know of one: small, because there may be 100,000.
type endpoint struct {
	id   guid
	addr netip.Addr // the first; zero in half a document
	// provider is the host behind a remote endpoint of an overlay network, as HNS has it.
	provider     netip.Addr
	remote, ours bool
	// round is the last one of a walk over everything that met it: cheaper than a set of 100,000.
	round uint32
}

// same leaves out what is ours to note.
func (e *endpoint) same(o *endpoint) bool {
	return e.addr == o.addr && e.provider == o.provider && e.remote == o.remote && e.ours == o.ours
}

// half is an endpoint of which HNS gave a document without addresses, perhaps for the moment only
// (kubernetes/kubernetes#141489): nothing is concluded from it until HNS has kept to it.
type half struct {
	since    time.Time
	believed bool
}

// Half a document is read again every second, and believed after as long as HNS takes to come back from a crash.
const (
	halfAgain    = time.Second
	halfBelieved = 30 * time.Second
)

// balancer is a load balancer; ID and Endpoints of doc are empty, they are in the fields.
type balancer struct {
	id        guid
	doc       hns.LoadBalancer
	endpoints []guid
	outline   uint64 // as HNS is expected to tell it
	round     uint32 // as an endpoint's
}

// index is what HNS has, as last listed and as our own writes changed it since, found by id, address and frontend.
type index struct {
	endpoints map[guid]*endpoint
	// more are further addresses of an endpoint: local ones on dual-stack networks.
	more map[guid][]netip.Addr
	// locals and remotes find by address. Among doubles (WS2019 lets remote ones happen) ours is preferred, then the lowest
	// id, for a stable answer; contested counts those that lost.
	locals, remotes map[netip.Addr]*endpoint
	balancers       map[guid]*balancer
	serving         map[service.Key]*balancer
	contested       int
	halves          map[guid]half
	// changes counts them: a plan against an index that did not change is the plan that was made before.
	changes uint64
	rounds  uint32
}

// round begins a walk.
func (x *index) round() uint32 {
	x.rounds++
	return x.rounds
}

func newIndex() *index {
	return &index{
		endpoints: map[guid]*endpoint{}, more: map[guid][]netip.Addr{},
		locals: map[netip.Addr]*endpoint{}, remotes: map[netip.Addr]*endpoint{},
		balancers: map[guid]*balancer{}, serving: map[service.Key]*balancer{}, halves: map[guid]half{},
	}
}

// indexOf indexes a listing.
func indexOf(l Listed) *index {
	x := newIndex()
	for _, e := range l.Endpoints {
		if c, ok := compactEndpoint(e); ok {
			x.putEndpoint(c)
		}
	}
	for _, lb := range l.LoadBalancers {
		if b, ok := compactBalancer(lb); ok {
			x.putBalancer(b)
		}
	}
	return x
}

// held is a compact endpoint with its further addresses.
type held struct {
	endpoint
	more []netip.Addr
}

func compactEndpoint(e hns.Endpoint) (held, bool) {
	id, ok := guidOf(e.ID)
	h := held{endpoint: endpoint{id: id, remote: e.Remote, ours: ownsEndpoint(e), provider: e.Provider}}
	if len(e.Addrs) > 0 {
		h.addr = e.Addrs[0]
		if len(e.Addrs) > 1 {
			h.more = e.Addrs[1:]
		}
	}
	return h, ok
}

func compactBalancer(lb hns.LoadBalancer) (*balancer, bool) {
	id, ok := guidOf(lb.ID)
	b := &balancer{id: id, doc: lb, outline: lb.Outline(), endpoints: make([]guid, 0, len(lb.Endpoints))}
	for _, e := range lb.Endpoints {
		if g, ok := guidOf(e); ok {
			b.endpoints = append(b.endpoints, g)
		}
	}
	b.doc.ID, b.doc.Endpoints = "", nil
	return b, ok
}

func (x *index) addresses(e *endpoint) []netip.Addr {
	if !e.addr.IsValid() {
		return nil
	}
	return append([]netip.Addr{e.addr}, x.more[e.id]...)
}

func (x *index) side(e *endpoint) map[netip.Addr]*endpoint {
	if e.remote {
		return x.remotes
	}
	return x.locals
}

func better(a, b *endpoint) bool {
	if a.ours != b.ours {
		return a.ours
	}
	return string(a.id[:]) < string(b.id[:])
}

func (x *index) putEndpoint(h held) {
	if old := x.endpoints[h.id]; old != nil && old.same(&h.endpoint) && slices.Equal(x.more[h.id], h.more) {
		return
	}
	x.changes++
	x.dropEndpoint(h.id)
	e := &h.endpoint
	x.endpoints[e.id] = e
	if len(h.more) > 0 {
		x.more[e.id] = h.more
	}
	x.enter(e)
}

// readEndpoint takes a document as HNS gives it; half a one does not replace what is known.
func (x *index) readEndpoint(h held, now time.Time) {
	old, known := x.endpoints[h.id]
	switch {
	case h.addr.IsValid():
		delete(x.halves, h.id)
		x.putEndpoint(h)
	case !known:
		x.putEndpoint(h)
		x.halves[h.id] = half{since: now}
	case !old.addr.IsValid():
		if f := x.halves[h.id]; !f.believed && now.Sub(f.since) >= halfBelieved {
			x.halves[h.id] = half{believed: true}
			x.changes++
		}
	}
}

// vague lists the endpoints of which HNS gave half a document that is not believed yet.
func (x *index) vague() (ids []guid) {
	for id, f := range x.halves {
		if !f.believed {
			ids = append(ids, id)
		}
	}
	return ids
}

func (x *index) enter(e *endpoint) {
	side := x.side(e)
	for _, a := range x.addresses(e) {
		old := side[a]
		if old != nil && old != e {
			x.contested++
		}
		if old == nil || better(e, old) {
			side[a] = e
		}
	}
}

// dropEndpoint forgets one; forgetting what is not known does nothing.
func (x *index) dropEndpoint(id guid) {
	e := x.endpoints[id]
	if e == nil {
		return
	}
	x.changes++
	side := x.side(e)
	for _, a := range x.addresses(e) {
		if side[a] == e {
			delete(side, a)
		}
	}
	delete(x.endpoints, id)
	delete(x.more, id)
	delete(x.halves, id)
	if x.contested > 0 { // another one with its address may have been hidden by it
		x.contested = 0
		for _, other := range x.endpoints {
			x.enter(other)
		}
	}
}

func (x *index) putBalancer(b *balancer) {
	if old := x.balancers[b.id]; old != nil && alike(old, b) {
		return
	}
	x.changes++
	x.dropBalancer(b.id)
	x.balancers[b.id] = b
	for _, key := range keysOf(b.doc) {
		if old := x.serving[key]; old == nil || ownsLB(b.id) && !ownsLB(old.id) {
			x.serving[key] = b
		}
	}
}

func (x *index) dropBalancer(id guid) {
	b := x.balancers[id]
	if b == nil {
		return
	}
	x.changes++
	delete(x.balancers, id)
	for _, key := range keysOf(b.doc) {
		if x.serving[key] != b {
			continue
		}
		delete(x.serving, key)
		if len(b.doc.VIPs) > 1 || len(b.doc.Ports) > 1 { // only such a one can share a frontend, and HNS should not allow it
			x.reserve(key)
		}
	}
}

// alike says whether two documents are the same.
func alike(a, b *balancer) bool {
	return a.doc.SourceVIP == b.doc.SourceVIP && a.doc.DSR == b.doc.DSR && a.doc.IPv6 == b.doc.IPv6 &&
		slices.Equal(a.doc.VIPs, b.doc.VIPs) && slices.Equal(a.doc.Ports, b.doc.Ports) && sameSet(a.endpoints, b.endpoints)
}

func sameSet(a, b []guid) bool {
	if slices.Equal(a, b) {
		return true
	}
	if len(a) != len(b) {
		return false
	}
	x, y := slices.Clone(a), slices.Clone(b)
	order := func(p, q guid) int { return bytes.Compare(p[:], q[:]) }
	slices.SortFunc(x, order)
	slices.SortFunc(y, order)
	return slices.Equal(x, y)
}

func (x *index) reserve(key service.Key) {
	for _, b := range x.balancers {
		for _, k := range keysOf(b.doc) {
			if k == key {
				x.serving[key] = b
			}
		}
	}
}

// keysOf lists the frontends of a load balancer; one that lacks port mappings (kubernetes/kubernetes#141488) has none.
func keysOf(lb hns.LoadBalancer) []service.Key {
	vips := lb.VIPs
	if len(vips) == 0 {
		vips = []netip.Addr{{}}
	}
	var keys []service.Key
	for _, vip := range vips {
		for _, port := range lb.Ports {
			keys = append(keys, service.Key{VIP: vip, IPv6: lb.IPv6, Protocol: port.Protocol, Port: port.External})
		}
	}
	return keys
}

// find gives the endpoint for a backend. One elsewhere is a remote endpoint; only when there is none, a local one with
// the address will do, for slices written by hand that name no node.
func (x *index) find(b service.Backend) *endpoint {
	if !b.Local {
		if e := x.remotes[b.Addr]; e != nil {
			return e
		}
	}
	return x.locals[b.Addr]
}

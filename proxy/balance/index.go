package balance

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// Listed is what HNS has, as far as one network is concerned.
type Listed struct {
	Endpoints     []hns.Endpoint
	LoadBalancers []hns.LoadBalancer
}

// Endpoint is what a proxy needs to know of an HNS endpoint. It is small because there may be 100,000.
type Endpoint struct {
	ID GUID
	// Addr is the first address; zero in an incomplete document.
	Addr netip.Addr

	// provider is the host behind a remote endpoint of an overlay network, as HNS has it.
	provider     netip.Addr
	remote, ours bool
	// host: the node agent made it for the host (routes and flannel name theirs NETWORK_ep).
	host bool
	// walk is the number of the last walk over everything that met this endpoint. It is cheaper than a set of 100,000.
	walk uint32
}

// same compares everything but the walk, which is not HNS's.
func (e *Endpoint) same(other *Endpoint) bool {
	return e.Addr == other.Addr && e.provider == other.provider && e.remote == other.remote && e.ours == other.ours &&
		e.host == other.host
}

// EndpointEntry is an endpoint with its further addresses, as an Index takes it in.
type EndpointEntry struct {
	Endpoint
	more []netip.Addr
}

// NewEndpoint reads a document. It returns false if HNS gave it an id that is not a GUID.
func NewEndpoint(e hns.Endpoint) (EndpointEntry, bool) {
	id, ok := ParseGUID(e.ID)
	entry := EndpointEntry{Endpoint: Endpoint{ID: id, remote: e.Remote, ours: ownsEndpoint(e), provider: e.Provider,
		host: !e.Remote && strings.HasSuffix(e.Name, "_ep")}}
	if len(e.Addrs) > 0 {
		entry.Addr = e.Addrs[0]
		if len(e.Addrs) > 1 {
			entry.more = e.Addrs[1:]
		}
	}
	return entry, ok
}

// Balancer is a load balancer of HNS. It must not be changed.
type Balancer struct {
	ID GUID
	// Doc is the document without ID and Endpoints: they are kept in a smaller form.
	Doc hns.LoadBalancer
	// Outline is hns.LoadBalancer.Outline of the whole document.
	Outline uint64

	endpoints []GUID
	walk      uint32 // as an endpoint's
}

// NewBalancer reads a document. It returns false if HNS gave it an id that is not a GUID.
func NewBalancer(lb hns.LoadBalancer) (*Balancer, bool) {
	id, ok := ParseGUID(lb.ID)
	b := &Balancer{ID: id, Doc: lb, Outline: lb.Outline(), endpoints: make([]GUID, 0, len(lb.Endpoints))}
	for _, e := range lb.Endpoints {
		if g, ok := ParseGUID(e); ok {
			b.endpoints = append(b.endpoints, g)
		}
	}
	b.Doc.ID, b.Doc.Endpoints = "", nil
	return b, ok
}

// Keys returns the frontends of a load balancer: none if it lacks port mappings (kubernetes/kubernetes#141488).
func (b *Balancer) Keys() []service.Key {
	vips := b.Doc.VIPs
	if len(vips) == 0 {
		vips = []netip.Addr{{}}
	}

	var keys []service.Key
	for _, vip := range vips {
		for _, port := range b.Doc.Ports {
			keys = append(keys, service.Key{VIP: vip, IPv6: b.Doc.IPv6, Protocol: port.Protocol, Port: port.External})
		}
	}
	return keys
}

// Same reports whether two documents say the same; the order of endpoints does not count.
func (b *Balancer) Same(other *Balancer) bool {
	return b.Doc.SourceVIP == other.Doc.SourceVIP && b.Doc.DSR == other.Doc.DSR && b.Doc.IPv6 == other.Doc.IPv6 &&
		slices.Equal(b.Doc.VIPs, other.Doc.VIPs) && slices.Equal(b.Doc.Ports, other.Doc.Ports) &&
		sameSet(b.endpoints, other.endpoints)
}

func sameSet(a, b []GUID) bool {
	if slices.Equal(a, b) {
		return true
	}
	if len(a) != len(b) {
		return false
	}

	x, y := slices.Clone(a), slices.Clone(b)
	order := func(p, q GUID) int { return bytes.Compare(p[:], q[:]) }
	slices.SortFunc(x, order)
	slices.SortFunc(y, order)
	return slices.Equal(x, y)
}

// incomplete is an endpoint whose document came without addresses, perhaps for the moment only
// (kubernetes/kubernetes#141489). Nothing is concluded from such a document until HNS has kept to it for
// incompleteBelieved.
type incomplete struct {
	since    time.Time
	believed bool
}

// incompleteBelieved is as long as HNS takes to come back from a crash.
const incompleteBelieved = 30 * time.Second

// Index is what HNS has: what it listed last, with our own writes since then. Objects are found by id, address and
// frontend. It is not safe for concurrent use.
type Index struct {
	endpoints map[GUID]*Endpoint
	// more has the further addresses of an endpoint: local ones on dual-stack networks.
	more map[GUID][]netip.Addr
	// locals and remotes find endpoints by address. Windows Server 2019 allows several remote endpoints of one
	// address. Then ours is preferred, and after that the lowest id, so that the answer is stable. contested counts
	// those that lost.
	locals, remotes map[netip.Addr]*Endpoint
	contested       int
	incomplete      map[GUID]incomplete

	balancers map[GUID]*Balancer
	serving   map[service.Key]*Balancer

	generation uint64
	walks      uint32
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{
		endpoints: map[GUID]*Endpoint{}, more: map[GUID][]netip.Addr{},
		locals: map[netip.Addr]*Endpoint{}, remotes: map[netip.Addr]*Endpoint{}, incomplete: map[GUID]incomplete{},
		balancers: map[GUID]*Balancer{}, serving: map[service.Key]*Balancer{},
	}
}

// Reset forgets everything.
func (x *Index) Reset() { *x = *NewIndex() }

// IndexOf returns the index of a listing.
func IndexOf(l Listed) *Index {
	x := NewIndex()
	for _, e := range l.Endpoints {
		if entry, ok := NewEndpoint(e); ok {
			x.PutEndpoint(entry)
		}
	}
	for _, lb := range l.LoadBalancers {
		if b, ok := NewBalancer(lb); ok {
			x.PutBalancer(b)
		}
	}
	return x
}

// Generation grows with every change: plans against an index of the same generation are the same.
func (x *Index) Generation() uint64 { return x.generation }

// Endpoint returns the endpoint with an id, or nil.
func (x *Index) Endpoint(id GUID) *Endpoint { return x.endpoints[id] }

// Local returns the local endpoint with an address, or nil.
func (x *Index) Local(addr netip.Addr) *Endpoint { return x.locals[addr] }

// Remote returns the remote endpoint with an address, or nil.
func (x *Index) Remote(addr netip.Addr) *Endpoint { return x.remotes[addr] }

// Balancer returns the load balancer with an id, or nil.
func (x *Index) Balancer(id GUID) *Balancer { return x.balancers[id] }

// Serving returns the load balancer that has a frontend, or nil.
func (x *Index) Serving(key service.Key) *Balancer { return x.serving[key] }

// Holder returns the load balancer that has a frontend, or else the one that has the frontend's id and serves
// something else.
func (x *Index) Holder(key service.Key) *Balancer {
	if b := x.serving[key]; b != nil {
		return b
	}
	id, _ := ParseGUID(LoadBalancerID(key)) // our ids are valid
	return x.balancers[id]
}

// Find returns the endpoint for a backend, or nil. A backend on another node has a remote endpoint; if there is none,
// a local endpoint with the address will do, for slices written by hand that name no node.
func (x *Index) Find(b service.Backend) *Endpoint {
	if !b.Local {
		if e := x.remotes[b.Addr]; e != nil {
			return e
		}
	}
	return x.locals[b.Addr]
}

// Incomplete returns the endpoints whose documents lack addresses and are not believed yet.
func (x *Index) Incomplete() (ids []GUID) {
	for id, i := range x.incomplete {
		if !i.believed {
			ids = append(ids, id)
		}
	}
	return ids
}

// nextWalk begins a walk over everything.
func (x *Index) nextWalk() uint32 {
	x.walks++
	return x.walks
}

func (x *Index) addresses(e *Endpoint) []netip.Addr {
	if !e.Addr.IsValid() {
		return nil
	}
	return append([]netip.Addr{e.Addr}, x.more[e.ID]...)
}

func (x *Index) side(e *Endpoint) map[netip.Addr]*Endpoint {
	if e.remote {
		return x.remotes
	}
	return x.locals
}

// preferred reports whether a is found before b where both have one address.
func preferred(a, b *Endpoint) bool {
	if a.ours != b.ours {
		return a.ours
	}
	return string(a.ID[:]) < string(b.ID[:])
}

// PutEndpoint adds an endpoint or replaces what is known of it.
func (x *Index) PutEndpoint(entry EndpointEntry) {
	if old := x.endpoints[entry.ID]; old != nil && old.same(&entry.Endpoint) &&
		slices.Equal(x.more[entry.ID], entry.more) {
		return
	}

	x.generation++
	x.DropEndpoint(entry.ID)
	e := &entry.Endpoint
	x.endpoints[e.ID] = e
	if len(entry.more) > 0 {
		x.more[e.ID] = entry.more
	}
	x.addByAddress(e)
}

// ReadEndpoint takes in a document that HNS gave at now. An incomplete document does not replace a complete one.
func (x *Index) ReadEndpoint(entry EndpointEntry, now time.Time) {
	old, known := x.endpoints[entry.ID]
	switch {
	case entry.Addr.IsValid():
		delete(x.incomplete, entry.ID)
		x.PutEndpoint(entry)
	case !known:
		x.PutEndpoint(entry)
		x.incomplete[entry.ID] = incomplete{since: now}
	case !old.Addr.IsValid():
		if i := x.incomplete[entry.ID]; !i.believed && now.Sub(i.since) >= incompleteBelieved {
			x.incomplete[entry.ID] = incomplete{believed: true}
			x.generation++
		}
	}
}

func (x *Index) addByAddress(e *Endpoint) {
	side := x.side(e)
	for _, a := range x.addresses(e) {
		old := side[a]
		if old != nil && old != e {
			x.contested++
		}
		if old == nil || preferred(e, old) {
			side[a] = e
		}
	}
}

// DropEndpoint removes an endpoint. It does nothing if the id is not known.
func (x *Index) DropEndpoint(id GUID) {
	e := x.endpoints[id]
	if e == nil {
		return
	}

	x.generation++
	side := x.side(e)
	for _, a := range x.addresses(e) {
		if side[a] == e {
			delete(side, a)
		}
	}
	delete(x.endpoints, id)
	delete(x.more, id)
	delete(x.incomplete, id)

	if x.contested > 0 { // another endpoint with the same address may have been hidden by this one
		x.contested = 0
		for _, other := range x.endpoints {
			x.addByAddress(other)
		}
	}
}

// PutBalancer adds a load balancer or replaces what is known of it. It keeps b.
func (x *Index) PutBalancer(b *Balancer) {
	if old := x.balancers[b.ID]; old != nil && old.Same(b) {
		return
	}

	x.generation++
	x.DropBalancer(b.ID)
	x.balancers[b.ID] = b
	for _, key := range b.Keys() {
		if old := x.serving[key]; old == nil || ownsBalancer(b.ID) && !ownsBalancer(old.ID) {
			x.serving[key] = b
		}
	}
}

// DropBalancer removes a load balancer. It does nothing if the id is not known.
func (x *Index) DropBalancer(id GUID) {
	b := x.balancers[id]
	if b == nil {
		return
	}

	x.generation++
	delete(x.balancers, id)
	for _, key := range b.Keys() {
		if x.serving[key] != b {
			continue
		}
		delete(x.serving, key)
		// Only a load balancer with several frontends can share one with another, and HNS should not allow that.
		if len(b.Doc.VIPs) > 1 || len(b.Doc.Ports) > 1 {
			x.findServing(key)
		}
	}
}

func (x *Index) findServing(key service.Key) {
	for _, b := range x.balancers {
		if slices.Contains(b.Keys(), key) {
			x.serving[key] = b
		}
	}
}

// HostAddress returns the second address of a subnet, and whether it belongs to an endpoint that the node agent made
// for the host. The agent gives that address to no pod.
func (x *Index) HostAddress(s hns.Subnet) (netip.Addr, bool) {
	e := x.locals[s.HostAddr()]
	return s.HostAddr(), e != nil && e.host
}

// FreeAddress returns the highest of the last 1,024 IPv4 addresses of a subnet that no endpoint has. It leaves out the
// gateway, except, and the broadcast address; it returns false if there is none.
func (x *Index) FreeAddress(s hns.Subnet, except netip.Addr) (netip.Addr, bool) {
	b := s.Prefix.Masked().Addr().As4()
	base := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	last := uint32(1)<<(32-s.Prefix.Bits()) - 2

	for i := range min(last, 1024) {
		n := base + last - i
		addr := netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		if addr != s.Gateway && addr != except && x.locals[addr] == nil && x.remotes[addr] == nil {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

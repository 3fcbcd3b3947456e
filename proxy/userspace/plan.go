package userspace

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/proxy/relay"
	"porthole.dev/porthole/proxy/service"
)

// Observed is what the host and the relay have now.
type Observed struct {
	Interfaces []string
	Addresses  []platform.HostAddress
	// Owned has the interface on which we put an address, or were about to.
	Owned map[netip.Addr]string
	// Idle has the time since when an owned address belongs to no service. An address that belongs to one, or did
	// until now, is absent.
	Idle  map[netip.Addr]time.Time
	Relay relay.State
}

// Facts are what a plan depends on beside frontends and observations.
type Facts struct {
	Interface string
	Reserved  []netip.Addr
	NodePorts []netip.Prefix
	Now       time.Time
	Linger    time.Duration
}

// Verb of an operation.
type Verb string

// Verbs, in the order in which they come.
const (
	Close  Verb = "close"          // a listener
	Drop   Verb = "drop"           // a frontend
	Add    Verb = "add address"    // to the interface
	Serve  Verb = "serve"          // create or change a frontend
	Listen Verb = "listen"         // for a frontend
	Remove Verb = "remove address" // from its interface
	Forget Verb = "forget address" // it is gone, or not ours any more
)

// Op is one operation. Each can be repeated.
type Op struct {
	Verb      Verb
	Addr      netip.Addr     // Add, Remove, Forget
	Interface string         // Add, Remove
	Key       service.Key    // Serve, Listen
	Name      string         // the frontend's name in the relay: Serve, Listen, Drop
	Config    relay.Config   // Serve
	At        relay.Endpoint // Listen, Close
	Service   string         // for people: Serve, Listen
	// Again: the address was added before and is lost.
	Again bool
}

// String returns the operation on one line, as plans are printed in logs and in test scripts.
func (o Op) String() string {
	var s strings.Builder
	s.WriteString(string(o.Verb))

	switch o.Verb {
	case Add:
		fmt.Fprintf(&s, " %s to %s", o.Addr, o.Interface)
	case Remove:
		fmt.Fprintf(&s, " %s from %s", o.Addr, o.Interface)
	case Forget:
		fmt.Fprintf(&s, " %s", o.Addr)
	case Close:
		fmt.Fprintf(&s, " %s", o.At)
	case Drop:
		fmt.Fprintf(&s, " %s", o.Name)
	case Listen:
		fmt.Fprintf(&s, " %s for %s", o.At, o.Service)
	case Serve:
		fmt.Fprintf(&s, " %s for %s: %s", o.Name, o.Service, list(o.Config.Backends))
		if o.Config.Inside != nil {
			fmt.Fprintf(&s, ", inside %s", list(o.Config.Inside))
		}
		if o.Config.Affinity > 0 {
			fmt.Fprintf(&s, ", affinity %s", o.Config.Affinity)
		}
		if len(o.Config.Sources) > 0 {
			fmt.Fprintf(&s, ", from %v", o.Config.Sources)
		}
	}

	if o.Again {
		s.WriteString(" (again)")
	}
	return s.String()
}

func list(backends []netip.AddrPort) string {
	var text []string
	for _, b := range backends {
		text = append(text, b.String())
		if len(text) == 5 && len(backends) > 5 {
			text = append(text, fmt.Sprintf("and %d more", len(backends)-5))
			break
		}
	}
	if text == nil {
		return "nobody"
	}
	return strings.Join(text, " ")
}

// Changes are the operations, and what cannot be served.
type Changes struct {
	Ops      []Op
	Problems map[service.Key]service.Problem
	// Idle is Observed.Idle of the next plan.
	Idle map[netip.Addr]time.Time
	// Kept counts what is right already: addresses, frontends and listeners.
	Kept int
}

// String prints one operation per line.
func (c Changes) String() string {
	var s strings.Builder
	for _, op := range c.Ops {
		fmt.Fprintln(&s, op)
	}
	return s.String()
}

// planner collects a plan.
type planner struct {
	seen  Observed
	facts Facts
	out   Changes

	there     map[netip.Addr][]string // interfaces with the address
	nodeAddrs []netip.Addr
	wanted    map[netip.Addr]bool // VIPs
	renewed   map[netip.Addr]bool // those that are added again: their listeners are opened again too
	listeners map[relay.Endpoint]service.Key
	names     map[string]bool
}

// Plan compares the wanted frontends with what was seen. Frontends earlier in wanted are served first, and keep an
// endpoint that a later one wants too. The arguments are not changed.
func Plan(wanted []service.Frontend, seen Observed, facts Facts) Changes {
	p := planner{seen: seen, facts: facts, there: map[netip.Addr][]string{}, wanted: map[netip.Addr]bool{},
		renewed: map[netip.Addr]bool{}, listeners: map[relay.Endpoint]service.Key{}, names: map[string]bool{},
		out: Changes{Problems: map[service.Key]service.Problem{}, Idle: map[netip.Addr]time.Time{}}}
	for _, a := range seen.Addresses {
		p.there[a.Addr] = append(p.there[a.Addr], a.Interface)
	}
	p.findNodeAddrs()

	var ops []Op
	for i := range wanted {
		ops = append(ops, p.frontend(&wanted[i])...)
	}
	p.out.Ops = append(p.stale(), ops...)
	p.out.Ops = append(p.out.Ops, p.addresses()...)
	return p.out
}

// findNodeAddrs lists the addresses of the host itself at which node ports are served.
func (p *planner) findNodeAddrs() {
	for _, a := range slices.SortedFunc(maps.Keys(p.there), netip.Addr.Compare) {
		if _, ours := p.seen.Owned[a]; ours || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
			continue
		}
		if len(p.facts.NodePorts) > 0 &&
			!slices.ContainsFunc(p.facts.NodePorts, func(r netip.Prefix) bool { return r.Contains(a) }) {
			continue
		}
		p.nodeAddrs = append(p.nodeAddrs, a)
	}
}

// stale plans to close listeners that no frontend wants or that belong to another frontend now, and to drop frontends
// that no service wants. It comes before new listeners are opened, because a port may pass from one frontend to
// another.
func (p *planner) stale() (ops []Op) {
	for _, at := range slices.SortedFunc(maps.Keys(p.seen.Relay.Listeners), compareEndpoints) {
		if key, ok := p.listeners[at]; !ok || key.String() != p.seen.Relay.Listeners[at] || p.renewed[at.Addr()] {
			ops = append(ops, Op{Verb: Close, At: at})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.seen.Relay.Frontends)) {
		if !p.names[name] {
			ops = append(ops, Op{Verb: Drop, Name: name})
		}
	}
	return ops
}

func compareEndpoints(a, b relay.Endpoint) int {
	if c := a.AddrPort.Compare(b.AddrPort); c != 0 {
		return c
	}
	return int(a.Protocol) - int(b.Protocol)
}

// frontend plans one frontend: its address, its backends, its listeners.
func (p *planner) frontend(f *service.Frontend) (ops []Op) {
	at := p.nodeAddrs
	if f.VIP.IsValid() {
		add, problem := p.address(f.VIP)
		if problem != nil {
			p.out.Problems[f.Key] = *problem
			return nil
		}
		ops = append(ops, add...)
		at = []netip.Addr{f.VIP}
	}
	if !served(f) {
		return ops
	}

	name := f.Key.String()
	var listen []Op
	for _, addr := range at {
		if addr.Is6() != f.IPv6 {
			continue
		}
		end := relay.Endpoint{Protocol: f.Protocol, AddrPort: netip.AddrPortFrom(addr, f.Port)}
		if other, taken := p.listeners[end]; taken {
			p.out.Problems[f.Key] = service.Problem{Reason: ReasonFrontendTaken,
				Text: fmt.Sprintf("%s is served for %s", end, other)}
			continue
		}
		p.listeners[end] = f.Key
		if p.seen.Relay.Listeners[end] == name && !p.renewed[addr] {
			p.out.Kept++
			continue
		}
		listen = append(listen, Op{Verb: Listen, At: end, Key: f.Key, Name: name, Service: f.Service})
	}

	p.names[name] = true
	config := configOf(f)
	if old, there := p.seen.Relay.Frontends[name]; there && old.Equal(config) {
		p.out.Kept++
	} else {
		ops = append(ops, Op{Verb: Serve, Key: f.Key, Name: name, Config: config, Service: f.Service})
	}
	return append(ops, listen...)
}

// served reports whether any client can be sent to a backend.
func served(f *service.Frontend) bool { return len(f.Backends) > 0 || len(f.InternalBackends) > 0 }

func configOf(f *service.Frontend) relay.Config {
	c := relay.Config{Backends: addrPorts(f.Backends), Sources: f.SourceRanges}
	if f.InternalBackends != nil {
		c.Inside = addrPorts(f.InternalBackends)
	}
	if f.Affinity {
		if c.Affinity = f.AffinityTimeout; c.Affinity <= 0 {
			c.Affinity = 3 * time.Hour // the API's default (core/v1 DefaultClientIPServiceAffinitySeconds)
		}
	}
	return c
}

func addrPorts(backends []service.Backend) []netip.AddrPort {
	out := make([]netip.AddrPort, 0, len(backends))
	for _, b := range backends {
		out = append(out, netip.AddrPortFrom(b.Addr, b.Port))
	}
	return out
}

// address plans a VIP when the first frontend has it; for others it returns no operation.
func (p *planner) address(vip netip.Addr) ([]Op, *service.Problem) {
	switch {
	case vip.IsLoopback() || vip.IsMulticast() || vip.IsUnspecified() || vip.IsLinkLocalUnicast():
		return nil, &service.Problem{Reason: ReasonAddressRefused,
			Text: fmt.Sprintf("%s cannot be an address of a service", vip)}
	case slices.Contains(p.facts.Reserved, vip) && len(p.there[vip]) == 0:
		return nil, &service.Problem{Reason: ReasonAddressReserved,
			Text: fmt.Sprintf("%s is needed by this node to reach others", vip)}
	}

	owned, ours := p.seen.Owned[vip]
	foreign := len(p.there[vip]) > 0 && !ours
	right := ours && owned == p.facts.Interface && slices.Contains(p.there[vip], owned)
	if !foreign && !right && !slices.Contains(p.seen.Interfaces, p.facts.Interface) {
		return nil, &service.Problem{Reason: ReasonInterfaceMissing,
			Text: fmt.Sprintf("this host has no interface %q to add %s to: it has %s", p.facts.Interface, vip,
				quoted(p.seen.Interfaces))}
	}

	if p.wanted[vip] {
		return nil, nil
	}
	p.wanted[vip] = true
	if foreign || right {
		p.out.Kept++
		return nil, nil
	}

	p.renewed[vip] = ours
	add := Op{Verb: Add, Addr: vip, Interface: p.facts.Interface, Again: ours}
	if ours && slices.Contains(p.there[vip], owned) {
		// The interface has another name now. The address is removed from the old one first, since two may not have it.
		return []Op{{Verb: Remove, Addr: vip, Interface: owned}, add}, nil
	}
	return []Op{add}, nil
}

// addresses removes our addresses that no service has. An address with open connections stays for Facts.Linger.
func (p *planner) addresses() (ops []Op) {
	for _, addr := range slices.SortedFunc(maps.Keys(p.seen.Owned), netip.Addr.Compare) {
		if p.wanted[addr] {
			continue
		}
		iface := p.seen.Owned[addr]
		if !slices.Contains(p.there[addr], iface) {
			ops = append(ops, Op{Verb: Forget, Addr: addr})
			continue
		}
		since, known := p.seen.Idle[addr]
		if !known {
			since = p.facts.Now
		}
		if p.seen.Relay.Open[addr] > 0 && p.facts.Now.Sub(since) < p.facts.Linger {
			p.out.Idle[addr] = since
			continue
		}
		ops = append(ops, Op{Verb: Remove, Addr: addr, Interface: iface})
	}
	return ops
}

// quoted lists names of interfaces.
func quoted(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Quote(n)
	}
	return strings.Join(out, ", ")
}

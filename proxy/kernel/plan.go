package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// Facts about the host that a plan depends on.
type Facts struct {
	Network hns.Network
	Version hns.Version
	// DSR: serve cluster IPs with direct server return.
	DSR bool
}

// Listed is what HNS has, as far as this network is concerned.
type Listed struct {
	Endpoints     []hns.Endpoint
	LoadBalancers []hns.LoadBalancer
}

// Verb of an operation.
type Verb string

// The operations. Replace deletes and creates back to back.
const (
	CreateEndpoint Verb = "create endpoint"
	CreateLB       Verb = "create lb"
	ModifyLB       Verb = "modify lb"
	ReplaceLB      Verb = "replace lb"
	DeleteLB       Verb = "delete lb"
	DeleteEndpoint Verb = "delete endpoint"
)

// Op is one operation. Addr and Endpoint belong to endpoint operations, the rest to load balancers; Backends are
// resolved to ids when the operation runs, because a plan creates some of them first.
type Op struct {
	Verb     Verb
	Addr     netip.Addr
	Endpoint hns.EndpointID
	Old      hns.LoadBalancerID // modify, replace, delete
	LB       hns.LoadBalancer   // create, modify, replace; its Endpoints are empty
	Backends []service.Backend
	Key      service.Key // the frontend for which this is done
	Why      string
}

func (o Op) String() string {
	var s string
	switch o.Verb {
	case CreateEndpoint, DeleteEndpoint:
		s = fmt.Sprintf("%s %s", o.Verb, o.Addr)
	case DeleteLB:
		s = fmt.Sprintf("%s %s", o.Verb, o.Key)
	default:
		var to []string
		for _, b := range o.Backends {
			to = append(to, b.Addr.String())
		}
		s = fmt.Sprintf("%s %s -> %s:%d", o.Verb, o.Key, strings.Join(to, ","), o.LB.Ports[0].Internal)
		if o.LB.DSR {
			s += " dsr"
		}
		if o.LB.Ports[0].Distribution != hns.PerConnection {
			s += " affinity"
		}
		if f := o.LB.Ports[0].Flags; f != 0 {
			s += fmt.Sprintf(" flags=%d", f)
		}
	}
	if o.Why != "" {
		s += " (" + o.Why + ")"
	}
	return s
}

// Changes is a plan: operations in order, and what is already so.
type Changes struct {
	Ops []Op
	// Right counts the frontends that need nothing.
	Right int
	// Problems by frontend: it cannot be served as wanted, for this reason.
	Problems map[service.Key]string
	// MissingLocal is set when a pod of this node has no endpoint among those listed.
	MissingLocal bool
}

func (c Changes) String() string {
	var b strings.Builder
	for _, op := range c.Ops {
		fmt.Fprintln(&b, op)
	}
	return b.String()
}

// Plan compares. It is pure; the order of operations is: per frontend (in the order given) the endpoints it needs and
// its load balancer, then load balancers that nobody wants, then endpoints that nobody uses.
func Plan(wanted []service.Frontend, listed Listed, facts Facts) Changes {
	p := newPlanner(listed, facts)
	for _, f := range wanted {
		p.frontend(f)
	}
	p.deleteLoadBalancers()
	p.deleteEndpoints()
	return p.out
}

type planner struct {
	facts   Facts
	listed  Listed
	byID    map[hns.EndpointID]hns.Endpoint
	locals  map[netip.Addr]hns.EndpointID
	remotes map[netip.Addr]hns.EndpointID
	// serving finds the load balancer that holds a frontend.
	serving map[service.Key]*hns.LoadBalancer
	// kept load balancers stay or become something else in place; used addresses and ids are in the end state.
	kept    map[hns.LoadBalancerID]bool
	used    map[hns.EndpointID]bool
	created map[netip.Addr]bool
	out     Changes
}

func newPlanner(listed Listed, facts Facts) *planner {
	p := &planner{
		facts: facts, listed: listed,
		byID:    map[hns.EndpointID]hns.Endpoint{},
		locals:  map[netip.Addr]hns.EndpointID{},
		remotes: map[netip.Addr]hns.EndpointID{},
		serving: map[service.Key]*hns.LoadBalancer{},
		kept:    map[hns.LoadBalancerID]bool{},
		used:    map[hns.EndpointID]bool{},
		created: map[netip.Addr]bool{},
	}
	p.out.Problems = map[service.Key]string{}
	for _, e := range listed.Endpoints {
		p.byID[e.ID] = e
		for _, a := range e.Addrs {
			index := p.locals
			if e.Remote {
				index = p.remotes
			}
			// Among doubles (WS2019 lets remote ones happen) ours is preferred, then the lowest id, for a stable answer.
			if old, double := index[a]; !double || better(e, p.byID[old]) {
				index[a] = e.ID
			}
		}
	}
	for i := range listed.LoadBalancers {
		lb := &listed.LoadBalancers[i]
		for _, key := range keysOf(*lb) {
			if old := p.serving[key]; old == nil || ownsLB(lb.ID) && !ownsLB(old.ID) {
				p.serving[key] = lb
			}
		}
	}
	return p
}

func better(a, b hns.Endpoint) bool {
	if ownsEndpoint(a) != ownsEndpoint(b) {
		return ownsEndpoint(a)
	}
	return a.ID < b.ID
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

// frontend plans one frontend.
func (p *planner) frontend(f service.Frontend) {
	old := p.serving[f.Key]
	if len(f.Backends) == 0 {
		return // an old load balancer of ours goes in deleteLoadBalancers; HNS refuses one without backends
	}
	backends, problem := onePort(f.Backends)
	usable := p.resolvable(backends)
	if len(usable) < len(backends) {
		problem = fmt.Sprintf("HNS has no endpoint for %d of this node's pods behind it", len(backends)-len(usable))
		p.out.MissingLocal = true
	}
	if problem != "" {
		p.out.Problems[f.Key] = problem
	}
	if len(usable) == 0 {
		if old != nil {
			p.keep(old)
		}
		return
	}
	lb := document(f, usable[0].Port, p.facts)
	if f.Affinity && !p.facts.Version.HasSessionAffinity() {
		p.out.Problems[f.Key] = fmt.Sprintf("session affinity needs HNS 12.0, this is %s", p.facts.Version)
	}
	if old == nil {
		p.createBackends(f.Key, usable)
		p.add(Op{Verb: CreateLB, LB: lb, Backends: usable, Key: f.Key})
		return
	}
	differs := p.difference(*old, lb, usable)
	if differs == "" {
		p.keep(old)
		p.out.Right++
		return
	}
	if !p.mayChange(*old) {
		p.keep(old)
		p.out.Problems[f.Key] = fmt.Sprintf("load balancer %s, which is not ours, holds this frontend", old.ID)
		return
	}
	p.kept[old.ID] = true
	p.createBackends(f.Key, usable)
	op := Op{Verb: ReplaceLB, Old: old.ID, LB: lb, Backends: usable, Key: f.Key, Why: differs}
	if p.facts.Version.CanModifyLoadBalancer() {
		op.Verb, op.LB.ID = ModifyLB, old.ID
	}
	p.add(op)
}

// onePort keeps the backends of the most common port: a load balancer of HNS has one internal port for all.
func onePort(all []service.Backend) ([]service.Backend, string) {
	count := map[uint16]int{}
	best := all[0].Port
	for _, b := range all {
		if count[b.Port]++; count[b.Port] > count[best] || count[b.Port] == count[best] && b.Port < best {
			best = b.Port
		}
	}
	if len(count) == 1 {
		return all, ""
	}
	var kept []service.Backend
	for _, b := range all {
		if b.Port == best {
			kept = append(kept, b)
		}
	}
	return kept, fmt.Sprintf("its pods listen on different ports; HNS can serve one (%d), %d pods are left out", best, len(all)-len(kept))
}

// resolvable leaves out this node's pods that HNS does not know: they have no network, or not yet.
func (p *planner) resolvable(all []service.Backend) []service.Backend {
	out := make([]service.Backend, 0, len(all))
	for _, b := range all {
		if _, known := p.locals[b.Addr]; b.Local && !known {
			continue
		}
		out = append(out, b)
	}
	return out
}

// find gives the listed endpoint for a backend. One elsewhere is a remote endpoint; only when there is none, a local one
// with the address will do, for slices written by hand that name no node.
func (p *planner) find(b service.Backend) (hns.EndpointID, bool) {
	if !b.Local {
		if id, ok := p.remotes[b.Addr]; ok {
			return id, true
		}
	}
	id, ok := p.locals[b.Addr]
	return id, ok
}

func (p *planner) createBackends(key service.Key, backends []service.Backend) {
	for _, b := range backends {
		if id, ok := p.find(b); ok {
			p.used[id] = true
			continue
		}
		if !p.created[b.Addr] {
			p.created[b.Addr] = true
			p.add(Op{Verb: CreateEndpoint, Addr: b.Addr, Key: key})
		}
	}
}

// document is the load balancer for a frontend, without its endpoints. The flags are those that upstream's proxy sets.
func document(f service.Frontend, internal uint16, facts Facts) hns.LoadBalancer {
	port := hns.Port{Protocol: f.Protocol, External: f.Port, Internal: internal}
	lb := hns.LoadBalancer{ID: lbID(f.Key), IPv6: f.IPv6}
	if f.VIP.IsValid() {
		lb.VIPs = []netip.Addr{f.VIP}
	}
	switch f.Kind {
	case service.ClusterIP:
		lb.DSR = facts.DSR
	case service.NodePort:
		port.Flags = hns.PortLocalRouted | hns.PortVIPExternal
		lb.DSR = f.LocalOnly
	case service.ExternalIP:
		port.Flags = hns.PortVIPExternal
		lb.DSR = f.LocalOnly
	case service.Ingress:
		port.Flags = hns.PortVIPExternal
		lb.DSR = f.LocalOnly
		if f.PreserveDestination {
			port.Flags |= hns.PortPreserveDIP | hns.PortUseMux
		}
	}
	if f.Affinity && facts.Version.HasSessionAffinity() {
		port.Distribution = hns.PerSource
	}
	lb.DSR = lb.DSR && facts.Version.HasDSR()
	lb.Ports = []hns.Port{port}
	return lb
}

// documented flags are compared; others, upstream's own bit among them, may not be read back.
const documented = hns.PortILB | hns.PortLocalRouted | hns.PortPreserveDIP

// difference says how a load balancer differs from the wanted one; "" when it is right.
func (p *planner) difference(old, want hns.LoadBalancer, backends []service.Backend) string {
	if len(old.Ports) != 1 || !slices.Equal(old.VIPs, want.VIPs) {
		return "other frontends"
	}
	a, b := old.Ports[0], want.Ports[0]
	switch {
	case a.Internal != b.Internal:
		return fmt.Sprintf("target port was %d", a.Internal)
	case a.Distribution != b.Distribution:
		return "affinity changed"
	case a.Flags&documented != b.Flags&documented, old.DSR != want.DSR:
		return "flags changed"
	case old.SourceVIP != want.SourceVIP:
		return "source address changed"
	}
	left := map[netip.Addr]bool{} // wanted address: is it local
	for _, w := range backends {
		left[w.Addr] = w.Local
	}
	gone := 0
	for _, id := range old.Endpoints {
		e, known := p.byID[id]
		matched := false
		for _, addr := range e.Addrs {
			if local, ok := left[addr]; known && ok && !(local && e.Remote) {
				delete(left, addr)
				matched = true
				break
			}
		}
		if !matched {
			gone++
		}
	}
	if gone > 0 || len(left) > 0 {
		return fmt.Sprintf("backends +%d -%d", len(left), gone)
	}
	return ""
}

// mayChange: it is marked as ours, or it serves one frontend of this cluster with endpoints of this network, as another
// service proxy of this node would have left it.
func (p *planner) mayChange(lb hns.LoadBalancer) bool {
	if ownsLB(lb.ID) {
		return true
	}
	if len(keysOf(lb)) != 1 {
		return false
	}
	for _, id := range lb.Endpoints {
		if _, ours := p.byID[id]; ours {
			return true
		}
	}
	return false
}

func (p *planner) keep(lb *hns.LoadBalancer) {
	p.kept[lb.ID] = true
	for _, id := range lb.Endpoints {
		p.used[id] = true
	}
}

func (p *planner) add(op Op) { p.out.Ops = append(p.out.Ops, op) }

func (p *planner) deleteLoadBalancers() {
	for i := range p.listed.LoadBalancers {
		lb := &p.listed.LoadBalancers[i]
		switch {
		case p.kept[lb.ID]:
		case ownsLB(lb.ID):
			op := Op{Verb: DeleteLB, Old: lb.ID}
			if keys := keysOf(*lb); len(keys) > 0 {
				op.Key = keys[0]
			}
			p.add(op)
		default:
			p.keep(lb) // somebody else's: its endpoints are in use
		}
	}
}

func (p *planner) deleteEndpoints() {
	for _, e := range p.listed.Endpoints {
		if ownsEndpoint(e) && !p.used[e.ID] {
			op := Op{Verb: DeleteEndpoint, Endpoint: e.ID}
			if len(e.Addrs) > 0 {
				op.Addr = e.Addrs[0]
			}
			p.add(op)
		}
	}
}

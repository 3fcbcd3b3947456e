package balance

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

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

// Op is one operation.
type Op struct {
	Verb Verb

	// Addr and Endpoint are those of an endpoint operation; Endpoint is set for deletions only.
	Addr     netip.Addr
	Endpoint hns.EndpointID

	// Old is the load balancer that is modified, replaced or deleted.
	Old hns.LoadBalancerID
	// LB is the document to create, modify to or replace with. Its Endpoints are empty unless there are no Backends:
	// the ids are looked up when the operation runs, because a plan creates some of the endpoints first.
	LB       hns.LoadBalancer
	Backends []service.Backend
	// Key is the frontend for which this is done.
	Key service.Key

	// Why names what HNS has otherwise; "" if it has nothing.
	Why string
}

// String returns the operation on one line, as plans are printed in logs, in /diff, and in test scripts.
func (o Op) String() string {
	var s string
	switch o.Verb {
	case CreateEndpoint, DeleteEndpoint:
		s = fmt.Sprintf("%s %s", o.Verb, o.Addr)
	case DeleteLB:
		s = fmt.Sprintf("%s %s", o.Verb, o.Key)
	default:
		s = fmt.Sprintf("%s %s -> %s", o.Verb, o.Key, o.describeLB())
	}
	if o.Why != "" {
		s += " (" + o.Why + ")"
	}
	return s
}

// describeLB returns the backends, their port, and the settings of the load balancer that differ from the usual ones.
func (o *Op) describeLB() string {
	var to []string
	for _, b := range o.Backends {
		to = append(to, b.Addr.String())
	}

	port := o.LB.Ports[0]
	s := fmt.Sprintf("%s:%d", strings.Join(to, ","), port.Internal)
	if o.LB.DSR {
		s += " dsr"
	}
	if port.Distribution != hns.PerConnection {
		s += " affinity"
	}
	if port.Flags != 0 {
		s += fmt.Sprintf(" flags=%d", port.Flags)
	}
	if o.LB.SourceVIP.IsValid() {
		s += " source=" + o.LB.SourceVIP.String()
	}
	return s
}

// Reasons of problems that plans find; they are the reasons of events.
const (
	ReasonNoIPv6          = "NoIPv6"
	ReasonNoAffinity      = "NoSessionAffinity"
	ReasonMixedPorts      = "MixedTargetPorts"
	ReasonBackendLimit    = "BackendLimit"
	ReasonPodUnknown      = "PodUnknown"
	ReasonEndpointFailed  = "EndpointFailed"
	ReasonIncomplete      = "HalfDocument"
	ReasonFrontendForeign = "FrontendTaken"
)

// Plan is what one load balancer needs.
type Plan struct {
	// Ops are in order: endpoints, then the load balancer.
	Ops []Op
	// Blocked says why nothing, or not all, can be done now; its Reason is "" otherwise. It is tried again.
	Blocked service.Problem
	// Limits are what this HNS can never do for the frontend; the rest is served.
	Limits []service.Problem
	// MissingLocal: a pod of this node has no endpoint among those listed.
	MissingLocal bool
}

// Right reports whether nothing is to be done and nothing is in the way.
func (p *Plan) Right() bool { return len(p.Ops) == 0 && p.Blocked.Reason == "" }

func problem(f *service.Frontend, reason, format string, args ...any) service.Problem {
	return service.Problem{Service: f.Service, Reason: reason,
		Text: f.Key.String() + ": " + fmt.Sprintf(format, args...)}
}

// Planner plans against what HNS has. Its methods change nothing but the walk counters of the index, so it is not safe
// for concurrent use.
type Planner struct {
	Index *Index
	Facts *Facts
	// Refused returns why an address can have no endpoint at the moment, or ""; nil: every address can.
	Refused func(netip.Addr) string
}

// Frontend plans one frontend: the endpoints it lacks, then its load balancer. A load balancer that is right is left
// alone, regardless of who created it. A frontend without backends has none: HNS refuses it
// (kubernetes/kubernetes#106936).
func (p Planner) Frontend(f *service.Frontend) Plan {
	var plan Plan
	if len(f.Backends) == 0 {
		return p.Released(f.Key)
	}
	if !p.Facts.hasFamily(f.IPv6) {
		plan.Limits = append(plan.Limits,
			problem(f, ReasonNoIPv6, "this network, or HNS %s, has no IPv6", p.Facts.Version))
		return plan
	}
	old := p.Index.Holder(f.Key)
	if old != nil && p.isServed(f, old) {
		return plan // the usual case, which costs one look-up per backend
	}

	usable := p.usable(f, &plan)
	if old != nil && p.isIncomplete(old) {
		plan.Blocked = problem(f, ReasonIncomplete, "HNS gives an incomplete document of an endpoint behind it")
		return plan
	}
	if len(usable) == 0 {
		return plan // nothing better than the old load balancer is possible; if there is one, it stays
	}
	if f.Affinity && !p.Facts.Version.HasSessionAffinity() {
		plan.Limits = append(plan.Limits,
			problem(f, ReasonNoAffinity, "session affinity needs HNS 12.0, this is %s", p.Facts.Version))
	}

	p.balancer(f, old, usable, &plan)
	return plan
}

// balancer plans the load balancer with the usable backends, and the endpoints it needs.
func (p Planner) balancer(f *service.Frontend, old *Balancer, usable []service.Backend, plan *Plan) {
	lb := document(f, usable[0].Port, p.Facts)
	lb.SourceVIP = sourceOf(usable, p.Index, p.Facts)
	why := ""
	if old != nil {
		if why = p.difference(old, &lb, usable); why == "" {
			if p.Facts.Overlay() { // an overlay has endpoints that no load balancer names
				p.missingEndpoints(f, usable, plan)
			}
			return
		}
	}

	lb.ID = LoadBalancerID(f.Key)
	op := Op{Verb: CreateLB, LB: lb, Backends: usable, Key: f.Key, Why: why}
	if old != nil {
		if !p.mayChange(old) {
			plan.Blocked = problem(f, ReasonFrontendForeign,
				"the frontend is owned by load balancer %s, which is not ours", old.ID)
			return
		}
		op.Verb = ReplaceLB
		op.Old = hns.LoadBalancerID(old.ID.String())
		if p.Facts.canModify() && sameFrontend(old.Doc, lb) {
			op.Verb, op.LB.ID = ModifyLB, op.Old
		}
	}

	p.missingEndpoints(f, usable, plan)
	plan.Ops = append(plan.Ops, op)
}

// Released plans a frontend that has no backends, or that no service wants any more.
func (p Planner) Released(key service.Key) Plan {
	old := p.Index.Holder(key)
	if old == nil || !p.mayChange(old) {
		return Plan{}
	}
	return Plan{Ops: []Op{{Verb: DeleteLB, Old: hns.LoadBalancerID(old.ID.String()), Key: key}}}
}

// Recreate plans the replacement of a load balancer by the same one, because its rules are lost. The plan is empty if
// the frontend has no load balancer that may be changed.
func (p Planner) Recreate(key service.Key) Plan {
	old := p.Index.Serving(key)
	if old == nil || !p.mayChange(old) {
		return Plan{}
	}

	lb := old.Doc
	lb.ID = LoadBalancerID(key)
	for _, id := range old.endpoints {
		lb.Endpoints = append(lb.Endpoints, hns.EndpointID(id.String()))
	}
	return Plan{Ops: []Op{{Verb: ReplaceLB, Old: hns.LoadBalancerID(old.ID.String()), LB: lb, Key: key}}}
}

// isIncomplete reports whether an endpoint behind a load balancer has an incomplete document that is not believed yet.
func (p Planner) isIncomplete(b *Balancer) bool {
	return slices.ContainsFunc(b.endpoints, func(id GUID) bool {
		i, found := p.Index.incomplete[id]
		return found && !i.believed
	})
}

// isServed reports whether old serves the frontend with all of its backends, and no problem is to be reported. It is a
// short cut for the usual case: false only means that a closer look is needed.
func (p Planner) isServed(f *service.Frontend, old *Balancer) bool {
	if len(f.Backends) > MaxBackends || f.Affinity && !p.Facts.Version.HasSessionAffinity() || p.Facts.Overlay() {
		return false
	}
	for i := range f.Backends {
		if f.Backends[i].Port != f.Backends[0].Port {
			return false
		}
	}
	if !p.sameEndpoints(old, f.Backends) {
		return false
	}
	want := document(f, f.Backends[0].Port, p.Facts)
	return p.difference(old, &want, nil) == ""
}

// usable returns the backends that the load balancer can have now. It returns the frontend's own list if it can have
// all.
func (p Planner) usable(f *service.Frontend, plan *Plan) []service.Backend {
	backends, left := onePort(f.Backends)
	if left > 0 {
		plan.Limits = append(plan.Limits, problem(f, ReasonMixedPorts,
			"its pods listen on different ports; HNS can serve one (%d), %d pods are left out%s", backends[0].Port,
			left, p.cureMixed(f)))
	}
	if len(backends) > MaxBackends {
		plan.Limits = append(plan.Limits, problem(f, ReasonBackendLimit,
			"HNS can serve %d backends, %d of %d are left out", MaxBackends, len(backends)-MaxBackends, len(backends)))
		backends = backends[:MaxBackends]
	}

	unknown, refusal := 0, ""
	leftOut := func(b service.Backend) bool {
		e := p.Index.Find(b)
		switch {
		case b.Local && (e == nil || e.remote):
			unknown++
			return true
		case e == nil && p.Refused != nil:
			if why := p.Refused(b.Addr); why != "" {
				refusal = why
				return true
			}
		}
		return false
	}

	first := slices.IndexFunc(backends, leftOut)
	if first < 0 {
		return backends
	}
	out := slices.Clone(backends[:first])
	for _, b := range backends[first+1:] {
		if !leftOut(b) {
			out = append(out, b)
		}
	}

	if unknown > 0 {
		plan.MissingLocal = true
		plan.Blocked = problem(f, ReasonPodUnknown, "HNS has no endpoint for %d of this node's pods behind it", unknown)
	}
	if refusal != "" {
		plan.Blocked = problem(f, ReasonEndpointFailed, "%s", refusal)
	}
	return out
}

// cureMixed says what serves pods of different ports.
func (p Planner) cureMixed(f *service.Frontend) string {
	if p.Facts.Overlay() && !p.Facts.OverlayRelay && !f.IPv6 {
		return "; start kube-proxy with --overlay-relay to serve them all"
	}
	return ""
}

// missingEndpoints plans the creation of endpoints that the frontend lacks.
func (p Planner) missingEndpoints(f *service.Frontend, backends []service.Backend, plan *Plan) {
	need := func(addr netip.Addr) {
		if !slices.ContainsFunc(plan.Ops, func(o Op) bool { return o.Addr == addr }) {
			plan.Ops = append(plan.Ops, Op{Verb: CreateEndpoint, Addr: addr, Key: f.Key})
		}
	}

	if p.Facts.Overlay() {
		if s := p.Facts.SourceVIP; s.IsValid() && p.Index.locals[s] == nil {
			need(s)
		}
		if f.Kind == service.ClusterIP && p.Index.remotes[f.VIP] == nil {
			need(f.VIP)
		}
	}
	for _, b := range backends {
		if p.Index.Find(b) == nil {
			need(b.Addr)
		}
	}
}

// comparedFlags are the port flags that are compared; others, upstream's own bit among them, may not be read back.
const comparedFlags = hns.PortILB | hns.PortLocalRouted | hns.PortPreserveDIP

func sameFrontend(a, b hns.LoadBalancer) bool {
	return len(a.Ports) == 1 && slices.Equal(a.VIPs, b.VIPs) && a.IPv6 == b.IPv6 &&
		a.Ports[0].Protocol == b.Ports[0].Protocol && a.Ports[0].External == b.Ports[0].External
}

// difference describes how a load balancer differs from the wanted one; "" if it does not. Nil backends are not
// compared.
func (p Planner) difference(old *Balancer, want *hns.LoadBalancer, backends []service.Backend) string {
	if !sameFrontend(old.Doc, *want) {
		return "other frontends"
	}

	has, wanted := old.Doc.Ports[0], want.Ports[0]
	switch {
	case has.Internal != wanted.Internal:
		return fmt.Sprintf("target port was %d", has.Internal)
	case has.Distribution != wanted.Distribution:
		return "affinity changed"
	case has.Flags&comparedFlags != wanted.Flags&comparedFlags, old.Doc.DSR != want.DSR:
		return "flags changed"
	case old.Doc.SourceVIP != want.SourceVIP:
		return "source address changed"
	}
	if backends == nil || p.sameEndpoints(old, backends) {
		return ""
	}

	missing := map[netip.Addr]bool{} // address of a wanted backend: whether it is on this node
	for _, b := range backends {
		missing[b.Addr] = b.Local
	}
	surplus := 0
	for _, id := range old.endpoints {
		if !p.takeBackend(p.Index.endpoints[id], missing) {
			surplus++
		}
	}
	if surplus > 0 || len(missing) > 0 {
		return fmt.Sprintf("backends +%d -%d", len(missing), surplus)
	}
	return ""
}

// takeBackend removes the backend that an endpoint stands for from missing. It returns false if the endpoint stands
// for none.
func (p Planner) takeBackend(e *Endpoint, missing map[netip.Addr]bool) bool {
	if e == nil {
		return false
	}
	for _, addr := range p.Index.addresses(e) {
		if local, ok := missing[addr]; ok && !(local && e.remote) {
			delete(missing, addr)
			return true
		}
	}
	return false
}

// sameEndpoints reports whether the load balancer has exactly the endpoints of the backends, each backend having one.
// It is the usual case and needs no map up to 64 backends; false only means that difference has to count.
func (p Planner) sameEndpoints(old *Balancer, backends []service.Backend) bool {
	if len(old.endpoints) != len(backends) {
		return false
	}
	var has map[GUID]bool
	if len(backends) > 64 {
		has = make(map[GUID]bool, len(backends))
		for _, id := range old.endpoints {
			has[id] = true
		}
	}

	for i, b := range backends {
		e := p.Index.Find(b)
		switch {
		case e == nil:
			return false
		case old.endpoints[i] == e.ID:
		case has != nil:
			if !has[e.ID] {
				return false
			}
		case !slices.Contains(old.endpoints, e.ID):
			return false
		}
	}
	return true
}

// mayChange reports whether a load balancer is ours to change: its id is ours, or it serves one frontend of this
// cluster with endpoints of this network, as another service proxy of this node would have left it.
func (p Planner) mayChange(b *Balancer) bool {
	if ownsBalancer(b.ID) {
		return true
	}
	if len(b.Doc.Ports) != 1 || len(b.Doc.VIPs) > 1 {
		return false
	}
	if p.Facts.SourceVIP.IsValid() && b.Doc.SourceVIP == p.Facts.SourceVIP {
		return true
	}
	return slices.ContainsFunc(b.endpoints, func(id GUID) bool { return p.Index.endpoints[id] != nil })
}

package kernel

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
		if o.LB.SourceVIP.IsValid() {
			s += " source=" + o.LB.SourceVIP.String()
		}
	}
	if o.Why != "" {
		s += " (" + o.Why + ")"
	}
	return s
}

// flaw is why a frontend is not served as wanted: a word for events and a text for people.
type flaw struct{ reason, text string }

// verdict is the plan of one frontend.
type verdict struct {
	ops []Op
	// blocked says why nothing, or not all, of it can be done now; it is tried again.
	blocked flaw
	// limits are what this HNS can never do of it; the rest is served.
	limits []flaw
	// missingLocal: a pod of this node has no endpoint among those listed.
	missingLocal bool
}

func (v *verdict) right() bool { return len(v.ops) == 0 && v.blocked.reason == "" }

// view is what one frontend is planned against. It changes nothing.
type view struct {
	x     *index
	facts *Facts
	// refused says why an address can have no endpoint at the moment; nil: every one can.
	refused func(netip.Addr) string
}

// frontend plans one frontend: the endpoints it lacks, then its load balancer.
func (w view) frontend(f *service.Frontend) verdict {
	var v verdict
	old := w.holder(f.Key)
	if len(f.Backends) == 0 {
		return w.gone(f.Key) // HNS refuses a load balancer without backends (kubernetes/kubernetes#106936)
	}
	if !w.facts.serves(f.IPv6) {
		v.limits = append(v.limits, flaw{"NoIPv6", fmt.Sprintf("%s: this network, or HNS %s, has no IPv6", f.Key, w.facts.Version)})
		return v
	}
	if old != nil && w.served(f, old) {
		return v // the usual case, at a look-up per backend
	}
	usable := w.usable(f, &v)
	if old != nil && w.vague(old) {
		v.blocked = flaw{"HalfDocument", fmt.Sprintf("%s: HNS gives half a document of an endpoint behind it", f.Key)}
		return v
	}
	if len(usable) == 0 {
		return v // the old load balancer, if there is one, is as good as none: it stays
	}
	if f.Affinity && !w.facts.Version.HasSessionAffinity() {
		v.limits = append(v.limits, flaw{"NoSessionAffinity", fmt.Sprintf("%s: session affinity needs HNS 12.0, this is %s", f.Key, w.facts.Version)})
	}
	lb := document(f, usable[0].Port, w.facts)
	lb.SourceVIP = sourceOf(usable, w.x, w.facts)
	why := ""
	if old != nil {
		if why = w.difference(old, &lb, usable); why == "" {
			if w.facts.overlay() { // which has endpoints that no load balancer names
				w.endpoints(f, usable, &v)
			}
			return v
		}
	}
	lb.ID = lbID(f.Key)
	op := Op{Verb: CreateLB, LB: lb, Backends: usable, Key: f.Key, Why: why}
	if old != nil {
		if !w.mayChange(old) {
			v.blocked = flaw{"FrontendTaken", fmt.Sprintf("%s: the frontend is owned by load balancer %s, which is not ours", f.Key, old.id)}
			return v
		}
		op.Verb, op.Old = ReplaceLB, hns.LoadBalancerID(old.id.String())
		if w.facts.canModify() && sameFrontend(old.doc, lb) {
			op.Verb, op.LB.ID = ModifyLB, op.Old
		}
	}
	w.endpoints(f, usable, &v)
	v.ops = append(v.ops, op)
	return v
}

// vague says that nothing can be said of an endpoint behind a load balancer now.
func (w view) vague(b *balancer) bool {
	return slices.ContainsFunc(b.endpoints, func(id guid) bool {
		f, is := w.x.halves[id]
		return is && !f.believed
	})
}

// served says that a load balancer is the frontend's, with all of its backends and nothing to remark.
func (w view) served(f *service.Frontend, old *balancer) bool {
	if len(f.Backends) > maxBackends || f.Affinity && !w.facts.Version.HasSessionAffinity() || w.facts.overlay() {
		return false
	}
	for i := range f.Backends {
		if f.Backends[i].Port != f.Backends[0].Port {
			return false
		}
	}
	if !w.sameIDs(old, f.Backends) {
		return false
	}
	want := document(f, f.Backends[0].Port, w.facts)
	return w.difference(old, &want, nil) == ""
}

// holder is the load balancer that a frontend has, or the one that has its id and something else.
func (w view) holder(key service.Key) *balancer {
	if b := w.x.serving[key]; b != nil {
		return b
	}
	id, _ := guidOf(lbID(key)) // ours is well formed
	return w.x.balancers[id]
}

// gone plans the end of a frontend.
func (w view) gone(key service.Key) verdict {
	old := w.holder(key)
	if old == nil || !w.mayChange(old) {
		return verdict{}
	}
	return verdict{ops: []Op{{Verb: DeleteLB, Old: hns.LoadBalancerID(old.id.String()), Key: key}}}
}

// usable are the backends that the load balancer can have now. The frontend's own list is returned when all can.
func (w view) usable(f *service.Frontend, v *verdict) []service.Backend {
	backends, left := onePort(f.Backends)
	if left > 0 {
		v.limits = append(v.limits, flaw{"MixedTargetPorts", fmt.Sprintf(
			"%s: its pods listen on different ports; HNS can serve one (%d), %d pods are left out", f.Key, backends[0].Port, left)})
	}
	if len(backends) > maxBackends {
		v.limits = append(v.limits, flaw{"BackendLimit", fmt.Sprintf(
			"%s: HNS can serve %d backends, %d of %d are left out", f.Key, maxBackends, len(backends)-maxBackends, len(backends))})
		backends = backends[:maxBackends]
	}
	unknown, refusal := 0, ""
	bad := func(b service.Backend) bool {
		e := w.x.find(b)
		switch {
		case b.Local && (e == nil || e.remote):
			unknown++
			return true
		case e == nil && w.refused != nil:
			if why := w.refused(b.Addr); why != "" {
				refusal = why
				return true
			}
		}
		return false
	}
	first := slices.IndexFunc(backends, bad)
	if first < 0 {
		return backends
	}
	out := slices.Clone(backends[:first])
	for _, b := range backends[first+1:] {
		if !bad(b) {
			out = append(out, b)
		}
	}
	if unknown > 0 {
		v.missingLocal = true
		v.blocked = flaw{"PodUnknown", fmt.Sprintf("%s: HNS has no endpoint for %d of this node's pods behind it", f.Key, unknown)}
	}
	if refusal != "" {
		v.blocked = flaw{"EndpointFailed", fmt.Sprintf("%s: %s", f.Key, refusal)}
	}
	return out
}

// endpoints plans those that are missing.
func (w view) endpoints(f *service.Frontend, backends []service.Backend, v *verdict) {
	need := func(addr netip.Addr) {
		if !slices.ContainsFunc(v.ops, func(o Op) bool { return o.Addr == addr }) {
			v.ops = append(v.ops, Op{Verb: CreateEndpoint, Addr: addr, Key: f.Key})
		}
	}
	if w.facts.overlay() {
		if s := w.facts.SourceVIP; s.IsValid() && w.x.locals[s] == nil {
			need(s)
		}
		if f.Kind == service.ClusterIP && w.x.remotes[f.VIP] == nil {
			need(f.VIP)
		}
	}
	for _, b := range backends {
		if w.x.find(b) == nil {
			need(b.Addr)
		}
	}
}

// documented flags are compared; others, upstream's own bit among them, may not be read back.
const documented = hns.PortILB | hns.PortLocalRouted | hns.PortPreserveDIP

func sameFrontend(a, b hns.LoadBalancer) bool {
	return len(a.Ports) == 1 && slices.Equal(a.VIPs, b.VIPs) && a.IPv6 == b.IPv6 &&
		a.Ports[0].Protocol == b.Ports[0].Protocol && a.Ports[0].External == b.Ports[0].External
}

// difference says how a load balancer differs from the wanted one; "" when it is right. Nil backends are not compared.
func (w view) difference(old *balancer, want *hns.LoadBalancer, backends []service.Backend) string {
	if !sameFrontend(old.doc, *want) {
		return "other frontends"
	}
	a, b := old.doc.Ports[0], want.Ports[0]
	switch {
	case a.Internal != b.Internal:
		return fmt.Sprintf("target port was %d", a.Internal)
	case a.Distribution != b.Distribution:
		return "affinity changed"
	case a.Flags&documented != b.Flags&documented, old.doc.DSR != want.DSR:
		return "flags changed"
	case old.doc.SourceVIP != want.SourceVIP:
		return "source address changed"
	}
	if backends == nil || w.sameIDs(old, backends) {
		return ""
	}
	left := map[netip.Addr]bool{} // wanted address: is it local
	for _, b := range backends {
		left[b.Addr] = b.Local
	}
	gone := 0
	for _, id := range old.endpoints {
		if !w.serves(w.x.endpoints[id], left) {
			gone++
		}
	}
	if gone > 0 || len(left) > 0 {
		return fmt.Sprintf("backends +%d -%d", len(left), gone)
	}
	return ""
}

// serves takes the address that an endpoint stands for out of those that are left; false when it stands for none.
func (w view) serves(e *endpoint, left map[netip.Addr]bool) bool {
	if e == nil {
		return false
	}
	for _, addr := range w.x.addresses(e) {
		if local, ok := left[addr]; ok && !(local && e.remote) {
			delete(left, addr)
			return true
		}
	}
	return false
}

// sameIDs is the usual case, without a map: each backend's endpoint is among those of the load balancer, and no other is.
func (w view) sameIDs(old *balancer, backends []service.Backend) bool {
	if len(old.endpoints) != len(backends) {
		return false
	}
	var has map[guid]bool
	if len(backends) > 64 {
		has = make(map[guid]bool, len(backends))
		for _, id := range old.endpoints {
			has[id] = true
		}
	}
	for i, b := range backends {
		e := w.x.find(b)
		switch {
		case e == nil:
			return false
		case old.endpoints[i] == e.id:
		case has != nil:
			if !has[e.id] {
				return false
			}
		case !slices.Contains(old.endpoints, e.id):
			return false
		}
	}
	return true
}

// mayChange: it is marked as ours, or it serves one frontend of this cluster with endpoints of this network, as another
// service proxy of this node would have left it.
func (w view) mayChange(b *balancer) bool {
	if ownsLB(b.id) {
		return true
	}
	if len(b.doc.Ports) != 1 || len(b.doc.VIPs) > 1 {
		return false
	}
	if w.facts.SourceVIP.IsValid() && b.doc.SourceVIP == w.facts.SourceVIP {
		return true
	}
	return slices.ContainsFunc(b.endpoints, func(id guid) bool { return w.x.endpoints[id] != nil })
}

// idle: it is ours, and neither held nor used in this round.
func (w view) idle(e *endpoint, round uint32) bool {
	source := w.facts.overlay() && !e.remote && e.addr == w.facts.SourceVIP
	return e.ours && e.round != round && !source
}

// holds notes the endpoints of a load balancer.
func (w view) holds(b *balancer, round uint32) {
	for _, id := range b.endpoints {
		if e := w.x.endpoints[id]; e != nil {
			e.round = round
		}
	}
}

// uses notes the endpoints that a frontend needs.
func (w view) uses(f *service.Frontend, round uint32) {
	if len(f.Backends) == 0 {
		return
	}
	backends, _ := onePort(f.Backends)
	for _, b := range backends[:min(len(backends), maxBackends)] {
		if e := w.x.find(b); e != nil {
			e.round = round
		}
	}
	if w.facts.overlay() && f.Kind == service.ClusterIP {
		if e := w.x.remotes[f.VIP]; e != nil {
			e.round = round
		}
	}
}

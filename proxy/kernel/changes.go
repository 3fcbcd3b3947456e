package kernel

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// Changes is a plan: operations in order, and what is already so.
type Changes struct {
	Ops []Op
	// Right counts the frontends that need nothing.
	Right int
	// Problems by frontend: it cannot be served as wanted, for this reason.
	Problems map[service.Key]string
	// About has what else is known of the frontends; Diff fills it in.
	About map[service.Key]About
}

func (c Changes) String() string {
	var b strings.Builder
	for _, op := range c.Ops {
		fmt.Fprintln(&b, op)
	}
	return b.String()
}

// Plan compares everything at once. It is pure; the order of operations is: per frontend (in the order given) the
// endpoints it needs and its load balancer, then load balancers that nobody wants, then endpoints that nobody uses.
func Plan(wanted []service.Frontend, listed Listed, facts Facts) Changes {
	w := view{x: indexOf(listed), facts: &facts}
	out := Changes{Problems: map[service.Key]string{}}
	created := map[netip.Addr]bool{}
	claimed := map[service.Key]bool{}
	for i := range wanted {
		f := &wanted[i]
		claimed[f.Key] = true
		v := w.frontend(f)
		for _, op := range v.ops {
			if op.Verb == CreateEndpoint {
				if created[op.Addr] {
					continue
				}
				created[op.Addr] = true
			}
			out.Ops = append(out.Ops, op)
		}
		for _, l := range append(v.limits, v.blocked) {
			if l.reason != "" {
				out.Problems[f.Key] = l.text
			}
		}
		if v.right() && len(f.Backends) > 0 {
			out.Right++
		}
	}
	out.Ops = append(out.Ops, w.unwanted(claimed, out.Ops)...)
	out.Ops = append(out.Ops, w.unused(wanted, out.Ops)...)
	return out
}

// unwanted deletes load balancers of ours that no frontend claims.
func (w view) unwanted(claimed map[service.Key]bool, planned []Op) []Op {
	taken := map[hns.LoadBalancerID]bool{}
	for _, op := range planned {
		taken[op.Old] = true
	}
	var ops []Op
	for _, b := range w.x.balancers {
		keys := keysOf(b.doc)
		id := hns.LoadBalancerID(b.id.String())
		if !ownsLB(b.id) || taken[id] || slices.ContainsFunc(keys, func(k service.Key) bool { return claimed[k] }) {
			continue
		}
		op := Op{Verb: DeleteLB, Old: id}
		if len(keys) > 0 {
			op.Key = keys[0]
		}
		ops = append(ops, op)
	}
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Old, b.Old) })
	return ops
}

// unused deletes endpoints of ours that neither a load balancer of the end state nor a wanted frontend uses.
func (w view) unused(wanted []service.Frontend, planned []Op) []Op {
	going := map[guid]bool{}
	for _, op := range planned {
		if id, ok := guidOf(op.Old); ok {
			going[id] = true
		}
	}
	round := w.x.round()
	for id, b := range w.x.balancers {
		if !going[id] {
			w.holds(b, round)
		}
	}
	for i := range wanted {
		w.uses(&wanted[i], round)
	}
	var ops []Op
	for id, e := range w.x.endpoints {
		if w.idle(e, round) {
			ops = append(ops, Op{Verb: DeleteEndpoint, Endpoint: hns.EndpointID(id.String()), Addr: e.addr})
		}
	}
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Endpoint, b.Endpoint)) })
	return ops
}

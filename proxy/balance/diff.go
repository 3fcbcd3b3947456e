package balance

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// Wanted is everything that a proxy wants of HNS.
type Wanted struct {
	// Frontends are in the order in which they are served.
	Frontends []service.Frontend
	// Released are frontends that were served and that no service wants any more, as far as the proxy remembers them.
	Released []service.Key
}

// Changes are all operations that separate HNS from what is wanted, in order.
type Changes struct {
	Ops []Op
	// Right counts the frontends that need nothing.
	Right int
	// Problems are what cannot be served as wanted, by frontend: the last problem of each.
	Problems map[service.Key]service.Problem
}

func (c Changes) String() string {
	var b strings.Builder
	for _, op := range c.Ops {
		fmt.Fprintln(&b, op)
	}
	return b.String()
}

// Diff compares everything at once. The order of operations is: per frontend the endpoints it needs and its load
// balancer, then released frontends, then load balancers that serve nothing, then endpoints that nothing uses.
func (p Planner) Diff(wanted Wanted) Changes {
	out := Changes{Problems: map[service.Key]service.Problem{}}
	created := map[netip.Addr]bool{}
	claimed := map[service.Key]bool{}

	for i := range wanted.Frontends {
		f := &wanted.Frontends[i]
		claimed[f.Key] = true
		plan := p.Frontend(f)
		for _, op := range plan.Ops {
			if op.Verb == CreateEndpoint {
				if created[op.Addr] {
					continue
				}
				created[op.Addr] = true
			}
			out.Ops = append(out.Ops, op)
		}
		for _, problem := range append(plan.Limits, plan.Blocked) {
			if problem.Reason != "" {
				out.Problems[f.Key] = problem
			}
		}
		if plan.Right() && len(f.Backends) > 0 {
			out.Right++
		}
	}

	for _, key := range wanted.Released {
		claimed[key] = true
		plan := p.Released(key)
		out.Ops = append(out.Ops, plan.Ops...)
	}
	out.Ops = append(out.Ops, p.deleteOrphans(claimed, out.Ops)...)
	out.Ops = append(out.Ops, p.deleteUnused(wanted.Frontends, out.Ops)...)
	return out
}

// changedBy returns the ids of the load balancers that operations modify, replace or delete.
func changedBy(ops []Op) map[GUID]bool {
	ids := map[GUID]bool{}
	for _, op := range ops {
		if id, ok := ParseGUID(op.Old); ok {
			ids[id] = true
		}
	}
	return ids
}

func (p Planner) deleteOrphans(claimed map[service.Key]bool, planned []Op) (ops []Op) {
	changed := changedBy(planned)
	wanted := func(key service.Key) bool { return claimed[key] }
	for b := range p.Orphans(wanted) {
		if !changed[b.ID] {
			plan := p.Orphan(b.ID, wanted)
			ops = append(ops, plan.Ops...)
		}
	}
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Old, b.Old) })
	return ops
}

// deleteUnused plans to delete the endpoints of ours that nothing uses once the operations of planned are done. It
// counts no use by load balancers that planned changes: their new documents name what they use among the frontends.
func (p Planner) deleteUnused(frontends []service.Frontend, planned []Op) (ops []Op) {
	changed := changedBy(planned)
	every := func(yield func(*service.Frontend) bool) {
		for i := range frontends {
			if !yield(&frontends[i]) {
				return
			}
		}
	}
	for _, e := range p.Unused(func(id GUID) bool { return changed[id] }, every) {
		ops = append(ops, Op{Verb: DeleteEndpoint, Endpoint: hns.EndpointID(e.ID.String()), Addr: e.Addr})
	}
	slices.SortFunc(ops, func(a, b Op) int {
		return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return ops
}

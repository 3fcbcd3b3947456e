package balance

import (
	"iter"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// The loop's sweeps and the comparison of everything (Planner.Diff) both take what is to be deleted from here, so that
// `porthole hns diff` lists what the loop deletes.

// Orphans yields the load balancers of ours that serve no frontend which wanted reports.
func (p Planner) Orphans(wanted func(service.Key) bool) iter.Seq[*Balancer] {
	return func(yield func(*Balancer) bool) {
		for _, b := range p.Index.balancers {
			if p.isOrphan(b, wanted) && !yield(b) {
				return
			}
		}
	}
}

// Orphan plans the deletion of a load balancer. The plan is empty if it is gone or serves a wanted frontend by now.
func (p Planner) Orphan(id GUID, wanted func(service.Key) bool) Plan {
	b := p.Index.balancers[id]
	if b == nil || !p.isOrphan(b, wanted) {
		return Plan{}
	}

	op := Op{Verb: DeleteLB, Old: hns.LoadBalancerID(id.String()), Why: "it serves nothing"}
	if keys := b.Keys(); len(keys) > 0 {
		op.Key = keys[0]
	}
	return Plan{Ops: []Op{op}}
}

func (p Planner) isOrphan(b *Balancer, wanted func(service.Key) bool) bool {
	if !ownsBalancer(b.ID) {
		return false
	}
	for _, key := range b.Keys() {
		if wanted(key) {
			return false
		}
	}
	return true
}

// Unused returns the endpoints of ours that nothing uses: neither a load balancer, except for those that changed
// reports, nor one of the frontends. Frontends that have their load balancer may be left out, except on overlay
// networks, where a cluster IP has an endpoint that no load balancer names. A nil changed reports none.
func (p Planner) Unused(changed func(GUID) bool, frontends iter.Seq[*service.Frontend]) (unused []*Endpoint) {
	walk := p.Index.nextWalk()
	for id, b := range p.Index.balancers {
		if changed != nil && changed(id) {
			continue
		}
		for _, e := range b.endpoints {
			if e := p.Index.endpoints[e]; e != nil {
				e.walk = walk
			}
		}
	}
	for f := range frontends {
		p.markUsed(f, walk)
	}

	for _, e := range p.Index.endpoints {
		isSource := p.Facts.Overlay() && !e.remote && e.Addr == p.Facts.SourceVIP
		if e.ours && e.walk != walk && !isSource {
			unused = append(unused, e)
		}
	}
	return unused
}

// markUsed notes the endpoints that a frontend needs.
func (p Planner) markUsed(f *service.Frontend, walk uint32) {
	if len(f.Backends) == 0 {
		return
	}

	backends, _ := onePort(f.Backends)
	for _, b := range backends[:min(len(backends), MaxBackends)] {
		if e := p.Index.Find(b); e != nil {
			e.walk = walk
		}
	}
	if p.Facts.Overlay() && f.Kind == service.ClusterIP {
		if e := p.Index.remotes[f.VIP]; e != nil {
			e.walk = walk
		}
	}
}

package kernel

import (
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

// After a reboot of the host HNS may list load balancers whose rules are gone (microsoft/wcnscripts#24; upstream's
// proxy deletes all load balancers at each start for that reason). A listing does not show it, and probes reach TCP
// cluster IPs only. So renewal replaces, once, those of our load balancers that the first full check finds, if the
// host may have rebooted since they were written (Options.Renewed). A restart of the program alone replaces nothing.
type renewal struct {
	*session
	known *known
	// complete is called once, when nothing is left to replace. It is nil if no renewal is wanted, and when it is
	// complete.
	complete func()
	// stale are the load balancers that are still to be replaced; nil before the first full check has ended.
	stale map[balance.GUID]bool
}

// begin is called after each full check. After the first it notes what is to be replaced; later calls do nothing.
func (r *renewal) begin() {
	if r.complete == nil || r.stale != nil {
		return
	}
	r.stale = map[balance.GUID]bool{}
	for _, id := range r.known.index.Own() {
		r.stale[id] = true
	}
	if n := len(r.stale); n > 0 {
		r.logger.Info(
			"The host may have rebooted since its load balancers were written: those of ours are replaced once",
			"count", n)
	}
}

// renew changes the plan of a frontend so that it replaces the load balancer if that is stale, even if HNS lists it as
// wanted.
func (r *renewal) renew(plan *balance.Plan, f *service.Frontend, planner balance.Planner) {
	if len(r.stale) == 0 || len(f.Backends) == 0 {
		return
	}
	old := r.known.index.Holder(f.Key)
	if old == nil || !r.stale[old.ID] {
		return
	}

	if plan.Right() {
		*plan = planner.Recreate(f.Key)
		return
	}
	for i := range plan.Ops {
		if op := &plan.Ops[i]; op.Verb == balance.ModifyLB { // a modification may leave the load balancer without rules
			op.Verb = balance.ReplaceLB
			op.LB.ID = balance.LoadBalancerID(f.Key)
		}
	}
}

// replaced notes load balancers that a write deleted.
func (r *renewal) replaced(gone []hns.LoadBalancerID) {
	for _, id := range gone {
		if g, ok := balance.ParseGUID(id); ok {
			delete(r.stale, g)
		}
	}
}

// finish ends the renewal if nothing is left to replace. A load balancer that is not listed any more counts as
// replaced.
func (r *renewal) finish() {
	if r.complete == nil || r.stale == nil {
		return
	}
	for id := range r.stale {
		if r.known.index.Balancer(id) != nil {
			return
		}
	}

	complete := r.complete
	r.complete, r.stale = nil, map[balance.GUID]bool{}
	complete()
}

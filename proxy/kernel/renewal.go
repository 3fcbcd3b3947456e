package kernel

import (
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

// After a reboot of the host HNS may list load balancers whose rules are gone (microsoft/wcnscripts#24; upstream's proxy deletes all
// load balancers at each start for that reason). A listing does not show it, and probes reach TCP cluster IPs only. So the load
// balancers of ours that the first survey finds are replaced once, if the host may have rebooted since they were written
// (Options.Renewed). A restart of the program alone replaces nothing.
type renewal struct {
	*session
	known *known
	// complete is called once when nothing is left to replace; nil: no renewal is wanted, or it is complete.
	complete func()
	// stale are the load balancers that are still to be replaced; nil before the first survey has ended.
	stale map[balance.GUID]bool
}

// begin notes what is to be replaced, when the first survey has ended. It does nothing later.
func (r *renewal) begin() {
	if r.complete == nil || r.stale != nil {
		return
	}
	r.stale = map[balance.GUID]bool{}
	for _, id := range r.known.index.Own() {
		r.stale[id] = true
	}
	if n := len(r.stale); n > 0 {
		r.logger.Info("The host may have rebooted since its load balancers were written: those of ours are replaced once", "count", n)
	}
}

// renew makes a plan replace a load balancer that is to be replaced, even if it is listed as it should be.
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
		if op := &plan.Ops[i]; op.Verb == balance.ModifyLB { // it would keep its rules, which may be none
			op.Verb, op.LB.ID = balance.ReplaceLB, balance.LoadBalancerID(f.Key)
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

// finish ends the renewal if nothing is left to replace: what is not listed any more was deleted by somebody else.
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

package keep

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// Keeper keeps what one mode wants. Make it with New, then call Run. It is safe for concurrent use.
type Keeper[Seen any, O table.Op] struct {
	*Loop[Status]
	mode  Mode[Seen, O]
	nodes func() ([]table.Node, bool)

	made   map[route]bool // of the pass that runs
	logged string         // the plan that was logged last
	claims table.Claims   // Options.Claims
}

// route identifies a wanted route. Keeper.made holds those that have been there: making one of them again is a repair.
type route struct {
	dst     netip.Prefix
	nextHop netip.Addr
}

// New returns a Keeper that has done nothing yet. Sync leaves everything as it is while the nodes or the host are not
// known; when Run ends, the routes stay.
func New[Seen any, O table.Op](mode Mode[Seen, O], o Options) *Keeper[Seen, O] {
	k := &Keeper[Seen, O]{mode: mode, nodes: o.Nodes, claims: o.Claims, made: map[route]bool{}}
	k.Loop = NewLoop(LoopOptions[Status]{Subject: "routes", Pass: k.pass, Watch: mode.Watch, Period: o.Period,
		OnStatus: o.OnStatus})
	return k
}

// Network returns the pod network that the mode needs.
func (k *Keeper[Seen, O]) Network(o podnet.Options) (podnet.Network, error) { return k.mode.Network(o) }

// pass observes, plans and applies. It is complete if every wanted route is there.
func (k *Keeper[Seen, O]) pass(ctx context.Context, before Status) (after Status, complete bool) {
	unchanged := before
	unchanged.LastSync = time.Now()
	nodes, ok := k.nodes()
	if !ok {
		unchanged.Error = "the nodes of the cluster are not known yet"
		return unchanged, false
	}
	seen, err := k.mode.Observe(ctx)
	if err != nil {
		unchanged.Error = err.Error()
		return unchanged, false
	}

	plan := k.mode.Plan(nodes, seen)
	k.log(ctx, plan)
	failed, tried := k.apply(ctx, plan.Ops)
	s := Status{Known: true, LastSync: time.Now(), Repairs: before.Repairs, Routes: []RouteStatus{},
		Problems: slices.Concat(plan.Problems, table.SameAddress(nodes)), Refused: k.claims.Own(nodes)}
	k.report(&s, plan.Wanted, failed, tried)
	for _, p := range plan.Peers {
		s.Peers = append(s.Peers,
			PeerStatus{Address: p.Addr.String(), AS: p.AS, Up: p.Up, Reason: p.Why, Since: p.Since, Learnt: p.Learnt})
	}
	if err := failed[netip.Prefix{}]; err != nil {
		s.Error = err.Error() // of a change that makes no route
	}
	return s, s.Complete() && len(failed) == 0
}

// log writes a plan that is not the one of the pass before.
func (k *Keeper[Seen, O]) log(ctx context.Context, plan table.Plan[O]) {
	text := brief(plan)
	if text == k.logged {
		return
	}
	k.logged = text
	klog.FromContext(ctx).Info("Planned routes", "wanted", len(plan.Wanted), "changes", len(plan.Ops), "plan",
		shorten(text))
}

// shown is how much of a plan is logged: that of some hundred routes, so that thousands do not fill the disk.
const shown = 16 << 10

func shorten(text string) string {
	if len(text) <= shown {
		return text
	}
	return fmt.Sprintf("%s\n… and %d bytes more", text[:shown], len(text)-shown)
}

// logLines is how many routes and changes are logged in full; of more, the first changes and what is not right.
const logLines = 50

// brief returns the plan as it is logged: in a large cluster the problems, and of routes and changes the first that
// are not Present.
func brief[O table.Op](plan table.Plan[O]) string {
	if len(plan.Wanted) <= logLines && len(plan.Ops) <= logLines {
		return plan.String()
	}
	short := table.Plan[O]{Ops: plan.Ops[:min(len(plan.Ops), logLines)], Problems: plan.Problems}
	for _, w := range plan.Wanted {
		if w.State != table.Present && len(short.Wanted) < logLines {
			short.Wanted = append(short.Wanted, w)
		}
	}
	return short.String() + "(shortened)\n"
}

// apply makes the changes in order. One failure does not stop the others. For each destination that changes make,
// tried is true and failed holds the first error.
func (k *Keeper[Seen, O]) apply(ctx context.Context, ops []O) (failed map[netip.Prefix]error,
	tried map[netip.Prefix]bool) {
	failed = map[netip.Prefix]error{}
	tried = map[netip.Prefix]bool{}
	for _, op := range ops {
		err := k.mode.Apply(ctx, op)
		tried[op.Makes()] = true
		if err != nil {
			if failed[op.Makes()] == nil {
				failed[op.Makes()] = err
			}
			klog.FromContext(ctx).Error(err, "Changing a route", "op", op.String())
			continue
		}
		if logger := klog.FromContext(ctx).V(1); logger.Enabled() {
			logger.Info("Changed a route", "op", op.String())
		}
	}
	return failed, tried
}

// report adds the routes to the status after a pass, counts repairs, and remembers which routes are there.
func (k *Keeper[Seen, O]) report(s *Status, wanted []table.Wanted, failed map[netip.Prefix]error,
	tried map[netip.Prefix]bool) {
	made := map[route]bool{}
	for _, w := range wanted {
		r := RouteStatus{Node: w.Node, Dst: w.Dst.String(), State: string(w.State), Reason: w.Reason, Untrue: w.Untrue}
		if !w.Untrue {
			s.Wanted++
		}
		if w.NextHop.IsValid() {
			r.NextHop = w.NextHop.String()
		}
		key := route{w.Dst, w.NextHop}
		made[key] = k.made[key]

		if w.State == table.Missing && tried[w.Dst] {
			if err := failed[w.Dst]; err != nil {
				r.Reason = err.Error()
			} else {
				r.State = string(table.Present)
				if k.made[key] {
					s.Repairs++
				}
			}
		}

		if r.State == string(table.Present) {
			made[key] = true
			s.Present++
		}
		s.Routes = append(s.Routes, r)
	}

	k.made = made // no larger than the cluster
}

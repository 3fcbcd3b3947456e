package keep

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// settle collects changes that come together, and bounds how fast two writers can undo each other's work.
const settle = 20 * time.Millisecond

// watchAgain is the wait before a subscription that ended is made again. Meanwhile the period alone finds changes.
var watchAgain = retry.Backoff{First: 5 * time.Second, Max: 5 * time.Second}

// Keeper keeps what one mode wants. Make it with New, then call Run. It is safe for concurrent use.
type Keeper[Seen any, O table.Op] struct {
	mode Mode[Seen, O]
	o    Options
	wake wakeup.Signal

	mu     sync.Mutex // held during a pass
	made   map[route]bool
	logged string // the plan that was logged last

	statusMu sync.Mutex
	status   Status
}

// route identifies a wanted route. Keeper.made holds those that have been there: making one of them again is a repair.
type route struct {
	dst     netip.Prefix
	nextHop netip.Addr
}

// New returns a Keeper that has done nothing yet.
func New[Seen any, O table.Op](mode Mode[Seen, O], o Options) *Keeper[Seen, O] {
	if o.Period <= 0 {
		o.Period = DefaultPeriod
	}
	return &Keeper[Seen, O]{mode: mode, o: o, wake: wakeup.New(), made: map[route]bool{}}
}

// Network returns the pod network that the mode needs.
func (k *Keeper[Seen, O]) Network(o podnet.Options) (podnet.Network, error) { return k.mode.Network(o) }

// Changed makes the next pass come soon: the nodes or the host changed. It never blocks.
func (k *Keeper[Seen, O]) Changed() { k.wake.Wake() }

// Status returns the outcome of the last pass.
func (k *Keeper[Seen, O]) Status() Status {
	k.statusMu.Lock()
	defer k.statusMu.Unlock()
	return k.status
}

// Run keeps the routes until ctx ends. Routes stay behind.
func (k *Keeper[Seen, O]) Run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { k.watch(ctx) })

	period := time.NewTicker(k.o.Period)
	defer period.Stop()
	for {
		k.Sync(ctx)

		select {
		case <-ctx.Done():
			return
		case <-period.C:
		case <-k.wake:
			if !wakeup.Pause(ctx, settle) {
				return
			}
		}
	}
}

// watch subscribes to changes of the host for as long as ctx lives.
func (k *Keeper[Seen, O]) watch(ctx context.Context) {
	for failures := 1; ; failures++ {
		err := k.mode.Watch(ctx, k.Changed)
		if ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err, "Watching the host's routes ended; trying again")
		if !wakeup.Pause(ctx, watchAgain.Wait(failures)) {
			return
		}
	}
}

// Sync makes one pass: observe, plan, apply. If the nodes or the host are not known, everything is left as it is.
func (k *Keeper[Seen, O]) Sync(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()

	status := k.pass(ctx)
	k.statusMu.Lock()
	k.status = status
	k.statusMu.Unlock()

	if k.o.OnStatus != nil {
		k.o.OnStatus(status)
	}
}

func (k *Keeper[Seen, O]) pass(ctx context.Context) Status {
	unchanged := k.Status()
	unchanged.LastSync = time.Now()
	nodes, ok := k.o.Nodes()
	if !ok {
		unchanged.Error = "the nodes of the cluster are not known yet"
		return unchanged
	}
	seen, err := k.mode.Observe(ctx)
	if err != nil {
		unchanged.Error = err.Error()
		return unchanged
	}

	plan := k.mode.Plan(nodes, seen)
	k.log(ctx, plan)
	failed, tried := k.apply(ctx, plan.Ops)
	return k.report(plan.Wanted, failed, tried)
}

// log writes a plan that is not the one of the pass before.
func (k *Keeper[Seen, O]) log(ctx context.Context, plan table.Plan[O]) {
	text := plan.String()
	if text == k.logged {
		return
	}
	k.logged = text
	klog.FromContext(ctx).Info("Planned routes", "wanted", len(plan.Wanted), "changes", len(plan.Ops), "plan", text)
}

// apply makes the changes in order. One failure does not stop the others. For each destination that changes make, tried is
// true and failed holds the first error.
func (k *Keeper[Seen, O]) apply(ctx context.Context, ops []O) (failed map[netip.Prefix]error, tried map[netip.Prefix]bool) {
	failed, tried = map[netip.Prefix]error{}, map[netip.Prefix]bool{}
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
		klog.FromContext(ctx).V(1).Info("Changed a route", "op", op.String())
	}
	return failed, tried
}

// report returns the status after a pass, counts repairs, and remembers which routes are there.
func (k *Keeper[Seen, O]) report(wanted []table.Wanted, failed map[netip.Prefix]error, tried map[netip.Prefix]bool) Status {
	s := Status{Known: true, LastSync: time.Now(), Wanted: len(wanted), Repairs: k.Status().Repairs, Routes: []RouteStatus{}}
	made := map[route]bool{}
	for _, w := range wanted {
		r := RouteStatus{Node: w.Node, Dst: w.Dst.String(), State: string(w.State), Reason: w.Reason}
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
	return s
}

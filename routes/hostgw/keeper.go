package hostgw

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/routes/table"
)

// DefaultResync is how often the whole table is compared although nothing was heard.
const DefaultResync = time.Second

// settle collects changes that come together, and keeps two writers that disagree from spinning.
const settle = 20 * time.Millisecond

// Keeper keeps the routes. Make it with New, then Run it.
type Keeper struct {
	o     Options
	dirty chan struct{}

	mu     sync.Mutex
	status Status
	seen   map[table.Op]bool // adds that were done before: doing one again is a repair
	last   string            // the plan that was logged last
}

// New makes a Keeper that does nothing yet.
func New(o Options) *Keeper {
	if o.Resync <= 0 {
		o.Resync = DefaultResync
	}
	return &Keeper{o: o, dirty: make(chan struct{}, 1), seen: map[table.Op]bool{}}
}

// Changed tells that the nodes or the host changed. It never blocks and may be called at any time.
func (k *Keeper) Changed() {
	select {
	case k.dirty <- struct{}{}:
	default:
	}
}

// Status is how the routes stood after the last look.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

// Run keeps the routes until ctx ends. Routes stay behind.
func (k *Keeper) Run(ctx context.Context) {
	go k.watch(ctx)
	tick := time.NewTicker(k.o.Resync)
	defer tick.Stop()
	for {
		k.Sync(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-k.dirty:
			select {
			case <-ctx.Done():
				return
			case <-time.After(settle):
			}
		}
	}
}

// watch subscribes to the host's table for as long as ctx lives. Without a subscription the ticker alone repairs.
func (k *Keeper) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := k.o.Table.Watch(ctx, k.Changed)
		if ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err, "Watching the route table ended; trying again")
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
}

// Sync looks, plans and applies once. What cannot be seen is left as it is.
func (k *Keeper) Sync(ctx context.Context) {
	k.mu.Lock()
	status := k.sync(ctx)
	k.status = status
	k.mu.Unlock()
	if k.o.OnPlan != nil {
		k.o.OnPlan(status)
	}
}

func (k *Keeper) sync(ctx context.Context) Status {
	next := k.status
	next.LastSync = time.Now()
	nodes, ok := k.o.Nodes.Routable()
	if !ok {
		next.Error = "the nodes of the cluster are not known yet"
		return next
	}
	listed, onLink, err := k.o.Table.List()
	if err != nil {
		next.Error = err.Error()
		return next
	}
	plan := table.Make(nodes, listed, table.Facts{Self: k.o.Node, OnLink: onLink})
	k.logPlan(ctx, plan)
	failed := k.apply(ctx, plan)
	return k.report(plan, failed)
}

func (k *Keeper) logPlan(ctx context.Context, plan table.Plan) {
	text := plan.String()
	if text == k.last {
		return
	}
	k.last = text
	klog.FromContext(ctx).Info("Planned routes", "wanted", len(plan.Wanted), "changes", len(plan.Ops), "plan", text)
}

// apply carries the plan out. One failure does not stop the others; each is kept by its operation.
func (k *Keeper) apply(ctx context.Context, plan table.Plan) map[table.Op]error {
	failed := map[table.Op]error{}
	for _, op := range plan.Ops {
		var err error
		switch op.Verb {
		case table.Add:
			err = k.o.Table.Add(op.Dst, op.NextHop)
		case table.Delete:
			err = k.o.Table.Delete(op.Dst, op.NextHop)
		default:
			err = errors.ErrUnsupported
		}
		if err != nil {
			failed[op] = fmt.Errorf("%s route %s via %s: %w", op.Verb, op.Dst, op.NextHop, err)
			klog.FromContext(ctx).Error(err, "Changing a route", "op", op.String())
			continue
		}
		klog.FromContext(ctx).V(1).Info("Changed a route", "op", op.String())
	}
	return failed
}

func (k *Keeper) report(plan table.Plan, failed map[table.Op]error) Status {
	s := Status{Known: true, LastSync: time.Now(), Wanted: len(plan.Wanted), Repairs: k.status.Repairs, Routes: []RouteStatus{}}
	for _, w := range plan.Wanted {
		r := RouteStatus{Node: w.Node, Dst: w.Dst.String(), State: string(w.State), Reason: w.Reason}
		if w.NextHop.IsValid() {
			r.NextHop = w.NextHop.String()
		}
		for _, op := range plan.Ops {
			if op.Verb != table.Add || op.Dst != w.Dst || op.NextHop != w.NextHop {
				continue
			}
			if err := failed[op]; err != nil {
				r.Reason = err.Error()
				continue
			}
			r.State = string(table.Present)
			key := table.Op{Verb: table.Add, Dst: op.Dst, NextHop: op.NextHop}
			if k.seen[key] {
				s.Repairs++
			}
			k.seen[key] = true
		}
		if r.State == string(table.Present) {
			k.seen[table.Op{Verb: table.Add, Dst: w.Dst, NextHop: w.NextHop}] = true
			s.Present++
		}
		s.Routes = append(s.Routes, r)
	}
	k.forget(plan)
	return s
}

// forget keeps the memory of what was done as small as the cluster is.
func (k *Keeper) forget(plan table.Plan) {
	if len(k.seen) <= len(plan.Wanted) {
		return
	}
	kept := map[table.Op]bool{}
	for _, w := range plan.Wanted {
		key := table.Op{Verb: table.Add, Dst: w.Dst, NextHop: w.NextHop}
		if k.seen[key] {
			kept[key] = true
		}
	}
	k.seen = kept
}

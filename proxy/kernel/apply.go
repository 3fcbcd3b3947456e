package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// host is the part of HNS that this package uses; hns/hcn implements it on Windows, hns/hnstest in tests.
type host interface {
	Version(context.Context) (hns.Version, error)
	NetworkByName(ctx context.Context, name string) (hns.Network, error)
	Endpoints(context.Context, hns.NetworkID) ([]hns.Endpoint, error)
	LoadBalancers(context.Context) ([]hns.LoadBalancer, error)
	CreateEndpoint(context.Context, hns.Endpoint) (hns.Endpoint, error)
	DeleteEndpoint(context.Context, hns.EndpointID) error
	CreateLoadBalancer(context.Context, hns.LoadBalancer) (hns.LoadBalancer, error)
	ModifyLoadBalancer(context.Context, hns.LoadBalancer) (hns.LoadBalancer, error)
	DeleteLoadBalancer(context.Context, hns.LoadBalancerID) error
}

// walk applies a plan and keeps the cache in step with what HNS answered.
type walk struct {
	host   host
	facts  Facts
	cache  *Listed
	index  *planner // of the cache's endpoints
	failed map[service.Key]error
	// writes counts the operations that changed something; broken says that one failed, so that the cache may be wrong.
	writes int
	broken bool
}

// apply does the operations in order. One that fails does not stop the others, except those of the same frontend.
func (w *walk) apply(ctx context.Context, ops []Op) {
	logger := klog.FromContext(ctx)
	w.index = newPlanner(Listed{Endpoints: w.cache.Endpoints}, w.facts)
	for _, op := range ops {
		if ctx.Err() != nil {
			return
		}
		needed := op.Verb != DeleteLB && op.Verb != DeleteEndpoint
		if needed && w.failed[op.Key] != nil {
			continue
		}
		if op.Verb == DeleteEndpoint && w.broken {
			continue // a load balancer that could not be changed may still use it; the next pass decides anew
		}
		err := w.do(ctx, op)
		if err == nil {
			w.writes++
			logger.V(4).Info("Applied", "operation", op.String())
			continue
		}
		w.broken = true
		logger.Error(err, "Operation failed", "operation", op.String())
		if needed || w.failed[op.Key] == nil {
			w.failed[op.Key] = err
		}
	}
}

func (w *walk) do(ctx context.Context, op Op) error {
	switch op.Verb {
	case CreateEndpoint:
		return w.createEndpoint(ctx, op.Addr)
	case DeleteEndpoint:
		if err := w.host.DeleteEndpoint(ctx, op.Endpoint); err != nil {
			return err
		}
		w.cache.Endpoints = slices.DeleteFunc(w.cache.Endpoints, func(e hns.Endpoint) bool { return e.ID == op.Endpoint })
		return nil
	case DeleteLB:
		return w.deleteLB(ctx, op.Old)
	}
	lb, err := w.resolve(op)
	if err != nil {
		return err
	}
	switch op.Verb {
	case CreateLB:
		return w.createLB(ctx, lb)
	case ModifyLB:
		return w.modifyLB(ctx, lb)
	default:
		return w.replaceLB(ctx, op.Old, lb)
	}
}

func (w *walk) createEndpoint(ctx context.Context, addr netip.Addr) error {
	made, err := w.host.CreateEndpoint(ctx, hns.Endpoint{
		ID: endpointID(w.facts.Network.ID, addr), Name: namePrefix + addr.String(), Network: w.facts.Network.ID,
		Remote: true, Addrs: []netip.Addr{addr}, MAC: remoteMAC(addr),
	})
	if err != nil {
		return err
	}
	if !made.Has(addr) {
		return fmt.Errorf("creating endpoint %s: HNS made one with %v instead", addr, made.Addrs)
	}
	w.cache.Endpoints = append(w.cache.Endpoints, made)
	w.index.byID[made.ID], w.index.remotes[addr] = made, made.ID
	return nil
}

// resolve turns backends into endpoint ids, by the same rule as the plan.
func (w *walk) resolve(op Op) (hns.LoadBalancer, error) {
	lb := op.LB
	lb.Endpoints = make([]hns.EndpointID, 0, len(op.Backends))
	for _, b := range op.Backends {
		id, ok := w.index.find(b)
		if !ok {
			return lb, fmt.Errorf("%s: backend %s has no endpoint", op.Verb, b.Addr)
		}
		lb.Endpoints = append(lb.Endpoints, id)
	}
	return lb, nil
}

func (w *walk) createLB(ctx context.Context, lb hns.LoadBalancer) error {
	made, err := w.host.CreateLoadBalancer(ctx, lb)
	if err != nil {
		return err
	}
	w.cache.LoadBalancers = append(w.cache.LoadBalancers, made)
	return nil
}

func (w *walk) deleteLB(ctx context.Context, id hns.LoadBalancerID) error {
	if err := w.host.DeleteLoadBalancer(ctx, id); err != nil {
		return err
	}
	w.cache.LoadBalancers = slices.DeleteFunc(w.cache.LoadBalancers, func(l hns.LoadBalancer) bool { return l.ID == id })
	return nil
}

func (w *walk) replaceLB(ctx context.Context, old hns.LoadBalancerID, lb hns.LoadBalancer) error {
	if err := w.deleteLB(ctx, old); err != nil {
		return err
	}
	return w.createLB(ctx, lb)
}

// modifyLB believes only what it reads back: HNS may say yes and do nothing, or know the id no more.
func (w *walk) modifyLB(ctx context.Context, lb hns.LoadBalancer) error {
	now, err := w.host.ModifyLoadBalancer(ctx, lb)
	class := hns.ClassOf(err)
	if class == hns.Unsupported || class == hns.Absent || err == nil && !sameEndpoints(now, lb) {
		return w.replaceLB(ctx, lb.ID, lb)
	}
	if err != nil {
		return err
	}
	for i := range w.cache.LoadBalancers {
		if w.cache.LoadBalancers[i].ID == lb.ID {
			w.cache.LoadBalancers[i] = now
		}
	}
	return nil
}

func sameEndpoints(a, b hns.LoadBalancer) bool {
	x, y := slices.Clone(a.Endpoints), slices.Clone(b.Endpoints)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

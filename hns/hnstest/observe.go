package hnstest

import (
	"context"

	"porthole.dev/porthole/hns"
)

// NetworkIDs answers like hcn.Client's.
func (f *Fake) NetworkIDs(ctx context.Context, name string) ([]hns.NetworkID, error) {
	outcome := f.enter(ctx, "list network ids")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch outcome {
	case Fail, DoThenFail:
		return nil, broken("list network ids")
	case AnswerNothing:
		return nil, nil
	}
	var out []hns.NetworkID
	for _, n := range f.networks {
		if n.Name == name {
			out = append(out, n.ID)
		}
	}
	return out, nil
}

// EndpointIDs answers like hcn.Client's.
func (f *Fake) EndpointIDs(ctx context.Context, network hns.NetworkID) ([]hns.EndpointID, error) {
	outcome := f.enter(ctx, "list endpoint ids")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch outcome {
	case Fail, DoThenFail:
		return nil, broken("list endpoint ids")
	case AnswerNothing:
		return nil, nil
	}
	var out []hns.EndpointID
	for _, e := range f.endpoints {
		if e.Network == network {
			out = append(out, e.ID)
		}
	}
	return out, nil
}

// LoadBalancerIDs answers like hcn.Client's.
func (f *Fake) LoadBalancerIDs(ctx context.Context) ([]hns.LoadBalancerID, error) {
	outcome := f.enter(ctx, "list load balancer ids")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch outcome {
	case Fail, DoThenFail:
		return nil, broken("list load balancer ids")
	case AnswerNothing:
		return nil, nil
	}
	out := make([]hns.LoadBalancerID, 0, len(f.balancers))
	for _, lb := range f.balancers {
		out = append(out, lb.ID)
	}
	return out, nil
}

// LoadBalancerOutlines answers like hcn.Client's.
func (f *Fake) LoadBalancerOutlines(ctx context.Context) (map[hns.LoadBalancerID]uint64, error) {
	outcome := f.enter(ctx, "list load balancer outlines")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch outcome {
	case Fail, DoThenFail:
		return nil, broken("list load balancer outlines")
	case AnswerNothing:
		return nil, nil
	}
	out := make(map[hns.LoadBalancerID]uint64, len(f.balancers))
	for _, lb := range f.balancers {
		if out[lb.ID] = lb.Outline(); f.Outline != nil {
			out[lb.ID] = f.Outline(lb)
		}
	}
	return out, nil
}

// Endpoint answers like hcn.Client's.
func (f *Fake) Endpoint(ctx context.Context, id hns.EndpointID) (hns.Endpoint, error) {
	outcome := f.enter(ctx, "read endpoint")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch outcome {
	case Fail, DoThenFail:
		return hns.Endpoint{}, broken("read endpoint")
	case Vanish:
		return hns.Endpoint{}, fail(hns.Absent, 0x490, "read endpoint %s", id)
	}
	for _, e := range f.endpoints {
		if e.ID == id {
			if outcome == Halve {
				e.Addrs = nil
			}
			return e, nil
		}
	}
	return hns.Endpoint{}, fail(hns.Absent, 0x490, "read endpoint %s", id)
}

// LoadBalancer answers like hcn.Client's.
func (f *Fake) LoadBalancer(ctx context.Context, id hns.LoadBalancerID) (hns.LoadBalancer, error) {
	outcome := f.enter(ctx, "read load balancer")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch outcome {
	case Fail, DoThenFail:
		return hns.LoadBalancer{}, broken("read load balancer")
	case Vanish:
		return hns.LoadBalancer{}, fail(hns.Absent, 0x490, "read load balancer %s", id)
	}
	for _, lb := range f.balancers {
		if lb.ID == id {
			return lb, nil
		}
	}
	return hns.LoadBalancer{}, fail(hns.Absent, 0x490, "read load balancer %s", id)
}

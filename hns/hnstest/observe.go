package hnstest

import (
	"context"

	"porthole.dev/porthole/hns"
)

// NetworkIDs implements the method of hcn.Client.
func (f *Fake) NetworkIDs(ctx context.Context, name string) ([]hns.NetworkID, error) {
	return listing(ctx, f, "list network ids", func() []hns.NetworkID {
		var out []hns.NetworkID
		for _, n := range f.networks {
			if n.Name == name {
				out = append(out, n.ID)
			}
		}
		return out
	})
}

// EndpointIDs implements the method of hcn.Client.
func (f *Fake) EndpointIDs(ctx context.Context, network hns.NetworkID) ([]hns.EndpointID, error) {
	return listing(ctx, f, "list endpoint ids", func() []hns.EndpointID {
		var out []hns.EndpointID
		for _, e := range f.endpoints {
			if e.Network == network {
				out = append(out, e.ID)
			}
		}
		return out
	})
}

// LoadBalancerIDs implements the method of hcn.Client.
func (f *Fake) LoadBalancerIDs(ctx context.Context) ([]hns.LoadBalancerID, error) {
	return listing(ctx, f, "list load balancer ids", func() []hns.LoadBalancerID {
		out := make([]hns.LoadBalancerID, 0, len(f.balancers))
		for _, lb := range f.balancers {
			out = append(out, lb.ID)
		}
		return out
	})
}

// LoadBalancerOutlines implements the method of hcn.Client.
func (f *Fake) LoadBalancerOutlines(ctx context.Context) (map[hns.LoadBalancerID]uint64, error) {
	return listing(ctx, f, "list load balancer outlines", func() map[hns.LoadBalancerID]uint64 {
		out := make(map[hns.LoadBalancerID]uint64, len(f.balancers))
		for _, lb := range f.balancers {
			if out[lb.ID] = lb.Outline(); f.Outline != nil {
				out[lb.ID] = f.Outline(lb)
			}
		}
		return out
	})
}

// Endpoint implements the method of hcn.Client.
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

// LoadBalancer implements the method of hcn.Client.
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

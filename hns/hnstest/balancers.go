package hnstest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"porthole.dev/porthole/hns"
)

// LoadBalancers implements the method of hcn.Client.
func (f *Fake) LoadBalancers(ctx context.Context) ([]hns.LoadBalancer, error) {
	return listing(ctx, f, "list load balancers", func() []hns.LoadBalancer { return slices.Clone(f.balancers) })
}

// frontends returns the frontends of a load balancer as HNS compares them: no two load balancers may share one.
func frontends(lb hns.LoadBalancer) []string {
	vips := lb.VIPs
	if len(vips) == 0 {
		vips = []netip.Addr{{}}
	}
	var out []string
	for _, v := range vips {
		for _, p := range lb.Ports {
			out = append(out, fmt.Sprintf("%v %v %d %v", v, p.Protocol, p.External, lb.IPv6))
		}
	}
	return out
}

// hostPorts returns the ports of the node itself that a load balancer takes: those without an address, and those with
// flag 2.
func hostPorts(lb hns.LoadBalancer) (out []string) {
	for _, p := range lb.Ports {
		if len(lb.VIPs) == 0 || p.Flags&hns.PortLocalRouted != 0 {
			out = append(out, fmt.Sprintf("%v %d %v", p.Protocol, p.External, lb.IPv6))
		}
	}
	return out
}

func (f *Fake) refused(kind string, lb *hns.LoadBalancer) error {
	if f.Refuse == nil {
		return nil
	}
	return f.Refuse(kind, nil, lb)
}

// checkBalancer returns the error with which HNS refuses a load balancer, nil if it accepts it. The codes are those of
// HNS.
func (o *objects) checkBalancer(lb hns.LoadBalancer) error {
	if len(lb.Endpoints) == 0 || len(lb.Ports) == 0 {
		return fail(hns.Invalid, 0x57, "load balancer without backends or ports")
	}
	for _, id := range lb.Endpoints {
		if !slices.ContainsFunc(o.endpoints, func(e hns.Endpoint) bool { return e.ID == id }) {
			return fail(hns.Absent, 0x803b0002, "load balancer backend %s", id)
		}
	}

	for _, other := range o.balancers {
		if other.ID == lb.ID {
			continue
		}
		if key := common(frontends(other), frontends(lb)); key != "" {
			return fail(hns.Exists, 0xb7, "load balancer frontend %s", key)
		}
		if port := common(hostPorts(other), hostPorts(lb)); port != "" && o.oneOwner {
			return fail(hns.Exists, 0x803b0013, "load balancer on the node's port %s", port)
		}
	}
	return nil
}

// common returns an element of both, or "".
func common(a, b []string) string {
	if i := slices.IndexFunc(a, func(key string) bool { return slices.Contains(b, key) }); i >= 0 {
		return a[i]
	}
	return ""
}

// CreateLoadBalancer implements the method of hcn.Client.
func (f *Fake) CreateLoadBalancer(ctx context.Context, lb hns.LoadBalancer) (hns.LoadBalancer, error) {
	return doing(ctx, f, "create load balancer", func(_ Outcome) (hns.LoadBalancer, error) {
		if slices.ContainsFunc(f.balancers, func(o hns.LoadBalancer) bool { return lb.ID != "" && o.ID == lb.ID }) {
			return hns.LoadBalancer{}, fail(hns.Exists, 0xb7, "create load balancer %s", lb.ID)
		}

		if err := f.refused("create load balancer", &lb); err != nil {
			return hns.LoadBalancer{}, err
		}
		if err := f.checkBalancer(lb); err != nil {
			return hns.LoadBalancer{}, err
		}
		if lb.ID == "" {
			lb.ID = hns.LoadBalancerID(f.newID())
		}
		f.balancers = append(f.balancers, lb)
		return lb, nil
	})
}

// ModifyLoadBalancer answers like hcn.Client's; version 15.4 changes nothing, older versions refuse.
func (f *Fake) ModifyLoadBalancer(ctx context.Context, lb hns.LoadBalancer) (hns.LoadBalancer, error) {
	return doing(ctx, f, "modify load balancer", func(outcome Outcome) (hns.LoadBalancer, error) {
		if !f.HNS.AtLeast(15, 4) {
			return hns.LoadBalancer{}, fail(hns.Unsupported, 0x80004001, "modify load balancer")
		}
		for i, old := range f.balancers {
			if old.ID != lb.ID {
				continue
			}
			if !f.HNS.AtLeast(15, 5) || outcome == LieAboutIt {
				return old, nil
			}
			if err := f.checkBalancer(lb); err != nil {
				return hns.LoadBalancer{}, err
			}
			f.balancers[i] = lb
			return lb, nil
		}
		return hns.LoadBalancer{}, fail(hns.Absent, 0x490, "modify load balancer %s", lb.ID)
	})
}

// DeleteLoadBalancer implements the method of hcn.Client.
func (f *Fake) DeleteLoadBalancer(ctx context.Context, id hns.LoadBalancerID) error {
	return f.change(ctx, "delete load balancer", func() error {
		f.balancers = slices.DeleteFunc(f.balancers, func(lb hns.LoadBalancer) bool { return lb.ID == id })
		return nil
	})
}

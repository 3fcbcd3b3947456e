package podnet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"porthole.dev/porthole/hns"
)

// Remove deletes the network called NetworkName with the endpoints in it and the load balancers of these. removed is
// false if there is none. Before is called if it is. What is gone meanwhile is success.
func (h *HNS) Remove(ctx context.Context) (removed bool, err error) {
	network, err := h.Reader.NetworkByName(ctx, NetworkName)
	if hns.IsAbsent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking up HNS network %s: %w", NetworkName, err)
	}
	endpoints, err := h.Reader.Endpoints(ctx, network.ID)
	if err != nil {
		return false, fmt.Errorf("listing endpoints of HNS network %s: %w", NetworkName, err)
	}
	balancers, err := h.Balancers.LoadBalancers(ctx)
	if err != nil {
		return false, fmt.Errorf("listing load balancers: %w", err)
	}
	if h.Before != nil {
		if err := h.Before(ctx); err != nil {
			return false, err
		}
	}

	var errs []error
	ids := map[hns.EndpointID]bool{}
	for _, e := range endpoints {
		ids[e.ID] = true
	}
	for _, lb := range balancers {
		if slices.ContainsFunc(lb.Endpoints, func(id hns.EndpointID) bool { return ids[id] }) {
			errs = append(errs, h.Balancers.DeleteLoadBalancer(ctx, lb.ID))
		}
	}
	for _, e := range endpoints {
		errs = append(errs, h.Writer.DeleteEndpoint(ctx, e.ID))
	}
	if err := errors.Join(errs...); err != nil {
		return false, fmt.Errorf("emptying HNS network %s: %w", NetworkName, err)
	}
	if err := h.Writer.DeleteNetwork(ctx, network.ID); err != nil {
		return false, fmt.Errorf("deleting HNS network %s: %w", NetworkName, err)
	}
	return true, nil
}

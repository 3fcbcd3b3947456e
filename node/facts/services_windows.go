package facts

import (
	"context"

	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/path"
)

// readServices reads HNS, which has the services too.
func readServices(ctx context.Context, n *path.Node) (what string, err error) {
	client := hcn.New(hcn.Options{})
	h := &path.HNS{}
	if h.Networks, err = client.Networks(ctx); err != nil {
		return path.UnreadHNS, err
	}
	for _, network := range h.Networks {
		list, err := client.Endpoints(ctx, network.ID)
		if err != nil {
			return path.UnreadHNS, err
		}
		h.Endpoints = append(h.Endpoints, list...)
	}
	if h.Balancers, err = client.LoadBalancers(ctx); err != nil {
		return path.UnreadHNS, err
	}
	n.HNS = h
	return "", nil
}

package facts

import (
	"context"

	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/path"
)

// readServices reads HNS, which has the services too.
func readServices(ctx context.Context, n *path.Node) map[string]error {
	return map[string]error{path.UnreadHNS: readHNS(ctx, n)}
}

// readHNS sets n.HNS only if everything could be read.
func readHNS(ctx context.Context, n *path.Node) (err error) {
	client := hcn.New(hcn.Options{})
	h := &path.HNS{}
	if h.Networks, err = client.Networks(ctx); err != nil {
		return err
	}
	for _, network := range h.Networks {
		list, err := client.Endpoints(ctx, network.ID)
		if err != nil {
			return err
		}
		h.Endpoints = append(h.Endpoints, list...)
	}
	if h.Balancers, err = client.LoadBalancers(ctx); err != nil {
		return err
	}
	n.HNS = h
	return nil
}

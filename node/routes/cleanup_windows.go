package routes

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/routes/hostroutes"
	"porthole.dev/porthole/routes/podnet"
)

// settleLimit is how long a network card may take until it has its addresses and routes again.
const settleLimit = 30 * time.Second

// Cleanup removes what the agent made on this node: the CNI configuration, the HNS network with all its endpoints, and
// with it the routes to other nodes' pods. The host's own routes are put back. Stop the agent and the node's pods
// before. Of the options it needs ConfDir, StateDir and Cluster.
func Cleanup(ctx context.Context, o Options) error {
	if err := removeConf(o); err != nil {
		return fmt.Errorf("removing the CNI configuration and the boot record: %w", err)
	}
	client := hcn.New(hcn.Options{})
	routes := hostroutes.New(hostroutes.NewHost(), o.StateDir, o.Cluster, o.Cluster6)
	h := podnet.HNS{Reader: client, Writer: hcn.Host{Client: client}, Balancers: client, Before: routes.Save}
	removed, err := h.Remove(ctx)
	if err != nil {
		return err
	}
	if removed {
		klog.FromContext(ctx).Info("Removed the pod network from HNS", "network", podnet.NetworkName)
	}

	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	return routes.Settle(ctx)
}

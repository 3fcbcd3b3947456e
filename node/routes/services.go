package routes

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/nodeapi"
)

// programmer is a keeper whose mode programs the cluster's services too, so that no service proxy may run.
type programmer interface {
	// programmer returns what programs the services, for people.
	programmer() string
}

// tellServices tells service proxies of this node whether they may run (see nodeapi.ServiceProgrammer). It writes
// nothing that the node has already.
func (a *agent) tellServices(ctx context.Context, k keeper) error {
	wanted := ""
	if mode, is := k.(programmer); is {
		wanted = mode.programmer()
	}
	n := a.cluster.Self()
	if n == nil || n.Annotations[nodeapi.ServiceProgrammer] == wanted {
		return nil
	}
	if err := a.cluster.Annotate(ctx, map[string]string{nodeapi.ServiceProgrammer: wanted}); err != nil {
		return fmt.Errorf("telling service proxies of this node whether they may run: %w", err)
	}
	klog.FromContext(ctx).Info("Told service proxies of this node what programs the services", "programmer", wanted)
	return nil
}

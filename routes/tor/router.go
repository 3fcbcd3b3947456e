package tor

import (
	"context"
	"fmt"

	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// driver reads and changes the routes of a router; Driver implements it.
type driver interface {
	// Show returns all routes of the router.
	Show(ctx context.Context) ([]Running, error)
	// Change makes one change, which may be repeated.
	Change(ctx context.Context, change RouterChange) error
}

// Router is the mode tor on the router: it keeps the routes to pods there. It implements keep.Mode. Static routes
// inside the ranges of the pods are its own; routes that the router learnt from others are left alone.
type Router struct {
	driver  driver
	cluster table.Cluster
}

// NewRouter returns the mode for a router, in which all pods have addresses of the ranges cluster.Pods.
func NewRouter(d driver, cluster table.Cluster) *Router { return &Router{driver: d, cluster: cluster} }

// Network implements keep.Mode: a router has no pods.
func (r *Router) Network(podnet.Options) (podnet.Network, error) { return podnet.Network{}, nil }

// Observe reads the router's routes.
func (r *Router) Observe(ctx context.Context) ([]Running, error) { return r.driver.Show(ctx) }

// Plan is pure: see plan.go.
func (r *Router) Plan(nodes []table.Node, running []Running) table.Plan[RouterChange] {
	return planRouter(nodes, running, r.cluster)
}

// Apply makes one change.
func (r *Router) Apply(ctx context.Context, change RouterChange) error {
	if err := r.driver.Change(ctx, change); err != nil {
		return fmt.Errorf("%s: %w", change, err)
	}
	return nil
}

// Watch reports nothing: routers of different makes tell their changes in different ways, and some not at all. While
// nothing is watched the routes are compared each second.
func (r *Router) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

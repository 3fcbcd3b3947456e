package tor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// hostTable is the host's route table; fib.New returns the one of this system.
type hostTable interface {
	// List returns the routes inside the pod range. Ours are those that a node had before, in the mode host-gateway.
	List() (routes []table.Route, onLink []netip.Prefix, err error)
	// Delete removes a route. One that is gone is success.
	Delete(dst netip.Prefix, nextHop netip.Addr) error
	// Watch calls changed after each change of the table, from its own goroutine, until ctx ends or an error.
	Watch(ctx context.Context, changed func()) error
}

// Mode is tor on one node. It implements keep.Mode. It makes no route, and removes those that host-gateway made on
// this node.
type Mode struct {
	node    string
	cluster table.Cluster
	table   hostTable
}

// New returns the mode for the node of that name in a cluster, whose routes are in host.
func New(node string, cluster table.Cluster, host hostTable) *Mode {
	return &Mode{node: node, cluster: cluster, table: host}
}

// Network returns a bridged pod network: packets leave it as they are.
func (m *Mode) Network(o podnet.Options) (podnet.Network, error) { return podnet.Bridged(o) }

// Observe lists the host's routes.
func (m *Mode) Observe(context.Context) ([]table.Route, error) {
	routes, _, err := m.table.List()
	return routes, err
}

// Plan is pure: see plan.go.
func (m *Mode) Plan(nodes []table.Node, seen []table.Route) table.Plan[table.Change] {
	return plan(table.Claims{Self: m.node, Cluster: m.cluster}, nodes, seen)
}

// Apply removes one route.
func (m *Mode) Apply(_ context.Context, change table.Change) error {
	if change.Verb != table.Delete {
		return fmt.Errorf("%s: %w", change, errors.ErrUnsupported)
	}
	if err := m.table.Delete(change.Dst, change.NextHop); err != nil {
		return fmt.Errorf("deleting route %s via %s: %w", change.Dst, change.NextHop, err)
	}
	return nil
}

// Watch reports changes of the host's route table.
func (m *Mode) Watch(ctx context.Context, changed func()) error { return m.table.Watch(ctx, changed) }

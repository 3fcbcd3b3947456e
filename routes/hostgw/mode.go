package hostgw

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// hostTable is the host's route table. fib.Table implements it, tests have one in memory.
type hostTable interface {
	// List returns the routes inside the pod range, and what the interface of the node's address reaches directly.
	List() (routes []table.Route, onLink []netip.Prefix, err error)
	// Add puts a route in place, over a wrong one.
	Add(dst netip.Prefix, nextHop netip.Addr) error
	// Delete removes a route. One that is gone is success.
	Delete(dst netip.Prefix, nextHop netip.Addr) error
	// Watch calls changed after each change of the table, from its own goroutine, until ctx ends or an error.
	Watch(ctx context.Context, changed func()) error
}

// Mode is host-gateway on one node. It implements keep.Mode.
type Mode struct {
	node    string
	cluster table.Cluster
	table   hostTable
}

// New returns the mode for the node of that name in a cluster, which keeps its routes in host.
func New(node string, cluster table.Cluster, host hostTable) *Mode {
	return &Mode{node: node, cluster: cluster, table: host}
}

// Network returns a bridged pod network: packets leave it as they are.
func (m *Mode) Network(o podnet.Options) (podnet.Network, error) { return podnet.Bridged(o) }

// Observe lists the host's routes.
func (m *Mode) Observe(context.Context) (Seen, error) {
	routes, onLink, err := m.table.List()
	return Seen{Routes: routes, OnLink: onLink}, err
}

// Plan is pure: see plan.go.
func (m *Mode) Plan(nodes []table.Node, seen Seen) table.Plan[table.Change] {
	return plan(table.Claims{Self: m.node, Cluster: m.cluster}, nodes, seen)
}

// Apply carries out one change of the route table.
func (m *Mode) Apply(_ context.Context, change table.Change) error {
	var err error
	switch change.Verb {
	case table.Add:
		err = m.table.Add(change.Dst, change.NextHop)
	case table.Delete:
		err = m.table.Delete(change.Dst, change.NextHop)
	default:
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("%s route %s via %s: %w", change.Verb, change.Dst, change.NextHop, err)
	}
	return nil
}

// Watch reports changes of the host's route table.
func (m *Mode) Watch(ctx context.Context, changed func()) error { return m.table.Watch(ctx, changed) }

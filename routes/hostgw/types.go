package hostgw

import (
	"context"
	"net/netip"
	"time"

	"porthole.dev/porthole/routes/table"
)

// Protocol marks our routes in a Linux kernel's table. 201 is nobody else's in iproute2's list and FRR's and BIRD's use.
const Protocol = 201

// nodeSource knows the nodes of the cluster; made by internal/kube.
type nodeSource interface {
	// Routable lists the nodes; ok is false while they are not known completely.
	Routable() (nodes []table.Node, ok bool)
}

// hostTable is the host's route table; NewTable makes the one of this system.
type hostTable interface {
	// List gives the routes inside the pod range, and what the interface of the node's address reaches directly.
	List() (routes []table.Route, onLink []netip.Prefix, err error)
	// Add puts a route in place, over a wrong one. Delete of what is gone is success.
	Add(dst netip.Prefix, nextHop netip.Addr) error
	Delete(dst netip.Prefix, nextHop netip.Addr) error
	// Watch calls changed after each change of the table, from its own goroutine, until ctx ends or an error.
	Watch(ctx context.Context, changed func()) error
}

// Options of a Keeper.
type Options struct {
	Node   string     // this node's name, required
	Nodes  nodeSource // required
	Table  hostTable  // required
	Resync time.Duration
	// OnPlan is told each new state of affairs; nil: nobody. It must not block.
	OnPlan func(Status)
}

// Status says how the routes stand.
type Status struct {
	// Known is false until the nodes and the host's table have been read once.
	Known    bool          `json:"known"`
	Error    string        `json:"error,omitempty"` // why the table could not be read or the nodes are not known
	Routes   []RouteStatus `json:"routes"`
	Wanted   int           `json:"wanted"`
	Present  int           `json:"present"`
	Repairs  int           `json:"repairs"` // routes put back after the first time
	LastSync time.Time     `json:"lastSync"`
}

// RouteStatus is one wanted route.
type RouteStatus struct {
	Node    string `json:"node"`
	Dst     string `json:"destination"`
	NextHop string `json:"nextHop,omitempty"`
	State   string `json:"state"` // present, missing, waiting, refused
	Reason  string `json:"reason,omitempty"`
}

// Complete says whether every route that should be there is, and none is refused or waiting.
func (s Status) Complete() bool { return s.Known && s.Error == "" && s.Present == s.Wanted }

package keep

import (
	"context"
	"time"

	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// Mode is one way to carry packets between nodes. Seen is what it observes of the host, O one change that it can make.
// A mode is a folder of routes, and its Plan calls pure functions in a file plan.go. A Keeper calls Observe, Plan and
// Apply one at a time, and Watch beside them.
type Mode[Seen any, O table.Op] interface {
	// Network returns the pod network which this mode needs on a node. It is pure.
	Network(podnet.Options) (podnet.Network, error)
	// Observe reads from the host what Plan has to know.
	Observe(context.Context) (Seen, error)
	// Plan returns what should be and the changes that lead there. It is pure.
	Plan(nodes []table.Node, seen Seen) table.Plan[O]
	// Apply makes one change. It may be repeated.
	Apply(context.Context, O) error
	// Watch calls changed once when it is established and after each change of what Observe reads, from any goroutine,
	// until ctx ends or an error.
	Watch(ctx context.Context, changed func()) error
}

// Options of a Keeper.
type Options struct {
	// Nodes lists the nodes of the cluster; ok is false while they are not known completely. Required.
	Nodes func() (nodes []table.Node, ok bool)
	// Claims are what this node's own Node object is held against, so that the status says why others send nothing
	// here.
	Claims table.Claims
	// Period is how often everything is compared although no change was reported and nothing is missing; zero means
	// DefaultPeriod.
	Period time.Duration
	// OnStatus is called after each pass; nil: nobody is. It must not block.
	OnStatus func(Status)
}

// DefaultPeriod bounds how long a change stays that the host did not report although it reports changes: the period of
// flannel's route check.
const DefaultPeriod = 10 * time.Second

// Status describes the routes after a pass.
type Status struct {
	// Known is false until the nodes and the host have been read once.
	Known bool `json:"known"`
	// why the host could not be read, the nodes are not known, or a change failed that makes no route
	Error    string        `json:"error,omitempty"`
	Routes   []RouteStatus `json:"routes"`
	Wanted   int           `json:"wanted"` // without those that are Untrue
	Present  int           `json:"present"`
	Problems []string      `json:"problems,omitempty"` // beside those of routes
	// Refused are the reasons in this node's own Node object for which other nodes send nothing here.
	Refused  []string     `json:"refused,omitempty"`
	Peers    []PeerStatus `json:"peers,omitempty"`
	Repairs  int          `json:"repairs"` // routes that were put back after they had been there
	LastSync time.Time    `json:"lastSync"`
}

// RouteStatus is one wanted route.
type RouteStatus struct {
	Node    string `json:"node"`
	Dst     string `json:"destination"`
	NextHop string `json:"nextHop,omitempty"`
	State   string `json:"state"` // present, missing, waiting, refused
	Reason  string `json:"reason,omitempty"`
	// Untrue: the route is refused because of what its node says of itself. Nothing is wrong with this host.
	Untrue bool `json:"untrue,omitempty"`
}

// PeerStatus is somebody with whom the node exchanges routes.
type PeerStatus struct {
	Address string `json:"address"`
	AS      uint32 `json:"as"`
	Up      bool   `json:"up"`
	Reason  string `json:"reason,omitempty"` // why there is no session, if that is known
	// Since is when the session began or ended, or when the peer was configured.
	Since  time.Time `json:"since,omitzero"`
	Learnt int       `json:"learnt"` // paths that the peer has told, whether they are used or not
}

// Complete reports whether every wanted route is present.
func (s Status) Complete() bool { return s.Known && s.Error == "" && s.Present == s.Wanted }

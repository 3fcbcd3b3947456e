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

// PromptMode is a Mode that plans the routes of one node for less than a whole plan costs. See Options.Prompt.
type PromptMode[Seen any, O table.Op] interface {
	// PlanNew returns the changes that make the routes of a node that has come; none if they need a whole plan. It is
	// pure.
	PlanNew(n table.Node, seen Seen) []O
}

// HearingMode is a Mode that hears of single destinations from others, and plans their routes for less than a whole
// plan costs: the routes of a destination that has just come are made before the next pass. It must report what it
// hears as a change, too.
type HearingMode[Seen any, O table.Op] interface {
	// Hear sets what is called, from any goroutine, after something was heard. It is called once, before all others.
	Hear(heard func())
	// Heard returns what the last Observe saw with what was heard since the last call in place of what it replaces. ok
	// is false if that is nothing, or so much that a pass costs less.
	Heard(seen Seen) (news Seen, ok bool)
	// PlanHeard returns the changes that make routes to destinations to which the host has none; none if they need a
	// whole plan. It is pure.
	PlanHeard(nodes []table.Node, news Seen) []O
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
	// PerRoute makes the period longer by so much for each wanted route, while the host reports its changes and all is
	// well. To compare thousands of routes costs processor time, for changes that a host which reports them rarely
	// keeps to itself. Zero: it stays as it is.
	PerRoute time.Duration
	// Burst is how many passes in a fifth of a second do not wait until changes have settled: for a mode that hears of
	// one change in several ways, one soon after the other, and is to act on the last.
	Burst int
	// OnStatus is called after each pass; nil: nobody is. It must not block.
	OnStatus func(Status)
	// Prompt: the route to a node depends on that node and the host alone, so that Plan of one node returns the
	// changes that make its routes. Then nodes that come do not wait for a pass, which in a large cluster takes long.
	Prompt bool
	// Inline makes a single change, for one node that came or for one thing that a HearingMode heard of, in the
	// goroutine that reported it, and does not wake the goroutine of Run. It is for hosts that are changed faster than
	// a goroutine wakes up, such as a Linux kernel.
	Inline bool
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

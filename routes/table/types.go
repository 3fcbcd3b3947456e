package table

import "net/netip"

// Node is a node of the cluster as far as routes are concerned.
type Node struct {
	Name     string
	Addr     netip.Addr     // its own address on the segment that nodes share; zero: not known yet
	PodCIDRs []netip.Prefix // its pod ranges; none: not assigned yet
}

// Facts are what the plan must know of this host.
type Facts struct {
	Self   string         // this node's name
	OnLink []netip.Prefix // what the interface of the node's address reaches without a router
}

// Route is one route of the host's table to a destination through a next hop.
type Route struct {
	Dst     netip.Prefix
	NextHop netip.Addr
	// Ours carries our mark. Others' routes are reported where they contradict ours; they are never deleted.
	Ours bool
}

// State of a wanted route.
type State string

// A wanted route is present, or missing (the plan adds it), or waiting (its next hop is not known, so nothing is added
// and nothing deleted), or refused (the reason says why it must not exist).
const (
	Present State = "present"
	Missing State = "missing"
	Waiting State = "waiting"
	Refused State = "refused"
)

// Wanted is one pod range of another node and how it stands.
type Wanted struct {
	Node    string
	Dst     netip.Prefix
	NextHop netip.Addr
	State   State
	Reason  string // of Waiting and Refused; or a remark on a conflict with somebody else's route
}

// Verb of an operation.
type Verb string

// Add puts a route in place, over one of the same destination and metric if there is one. Delete removes exactly the
// route through that next hop.
const (
	Add    Verb = "add"
	Delete Verb = "delete"
)

// Op is one change of the host's table.
type Op struct {
	Verb    Verb
	Dst     netip.Prefix
	NextHop netip.Addr
	Why     string
}

// Plan is what should be and the changes that lead there, in order.
type Plan struct {
	Wanted []Wanted // by destination
	Ops    []Op
}

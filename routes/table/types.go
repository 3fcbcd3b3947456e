package table

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Node is a node of the cluster as far as routes are concerned.
type Node struct {
	Name string
	// when its Node object was made, by the API server's clock; zero: not known
	Since    time.Time      `json:",omitzero"`
	Addr     netip.Addr     // its own address on the segment that nodes share; zero: not known yet
	Addr6    netip.Addr     // its address of IPv6 beside an Addr of IPv4; zero: it has none
	PodCIDRs []netip.Prefix // its pod ranges; none: not assigned yet
	// Cordoned nodes take no new pods (spec.unschedulable); those that they have go on.
	Cordoned bool
	// Annotations are those of the Node that modes read (internal/kube keeps them). They must not be changed.
	Annotations map[string]string
}

// AddrFor returns the node's address of the family of a range; Addr, of another family, if it has none.
func (n Node) AddrFor(dst netip.Prefix) netip.Addr {
	if n.Addr6.IsValid() && dst.Addr().Is6() {
		return n.Addr6
	}
	return n.Addr
}

// Route is one route of the host's table to a destination through a next hop.
type Route struct {
	Dst     netip.Prefix
	NextHop netip.Addr
	// Ours is true if the route carries our mark. Routes of others are reported if they contradict ours; they are never
	// deleted.
	Ours bool
}

// State of a wanted route.
type State string

// States of a wanted route.
const (
	Present State = "present"
	Missing State = "missing" // the plan makes it
	Waiting State = "waiting" // something is not known yet: nothing is added and nothing deleted
	Refused State = "refused" // the route must not exist, or cannot
)

// Wanted is the route to one pod range of another node.
type Wanted struct {
	Node    string
	Dst     netip.Prefix
	NextHop netip.Addr // zero: not known
	State   State
	Reason  string // of Waiting and Refused; otherwise a remark, for example on somebody else's route
	// Untrue: the route is Refused because of what its node says of itself. Nothing is wrong with this host.
	Untrue bool
}

// Op is one change of the host, of a type that the mode chooses. Carrying it out twice must do no harm.
type Op interface {
	// String describes the change and its reason in one line.
	String() string
	// Makes returns the destination of the wanted route that this change helps to make, and the zero Prefix if it only
	// takes something away. The route counts as present once all changes that make it have succeeded.
	Makes() netip.Prefix
}

// Plan is what should be and the changes that lead there, in order.
type Plan[O Op] struct {
	Wanted []Wanted // by destination
	Ops    []O
	// Problems are what else is not as it should be, for people. The same problem has the same text in each plan.
	Problems []string
	// Peers are those with whom the node exchanges routes, in order; only of modes that do so.
	Peers []Peer
}

// Peer is somebody with whom a node exchanges routes.
type Peer struct {
	Addr netip.Addr
	AS   uint32
	Up   bool   // there is a session
	Why  string // why there is none, if that is known
	// Since is when the session began or ended, or when the peer was configured; zero: not known.
	Since  time.Time
	Learnt int // paths that the peer has told, whether they are used or not
}

// String returns the plan as logs and tests show it: the wanted routes, the problems, then the changes.
func (p Plan[O]) String() string {
	var b strings.Builder
	for _, w := range p.Wanted {
		fmt.Fprintf(&b, "%s via %s (%s) %s", w.Dst, hop(w.NextHop), w.Node, w.State)
		if w.Reason != "" {
			fmt.Fprintf(&b, ": %s", w.Reason)
		}
		b.WriteByte('\n')
	}

	for _, problem := range p.Problems {
		b.WriteString("problem: " + problem + "\n")
	}
	for _, o := range p.Ops {
		b.WriteString(o.String() + "\n")
	}
	return b.String()
}

// Verb of a Change.
type Verb string

// Add puts a route in place, over one with the same destination and metric if there is one. Delete removes exactly the
// route through that next hop.
const (
	Add    Verb = "add"
	Delete Verb = "delete"
)

// Change is an Op on the host's route table.
type Change struct {
	Verb    Verb
	Dst     netip.Prefix
	NextHop netip.Addr
	Why     string
}

func (c Change) String() string {
	return fmt.Sprintf("%s %s via %s: %s", c.Verb, c.Dst, hop(c.NextHop), c.Why)
}

// Makes implements Op.
func (c Change) Makes() netip.Prefix {
	if c.Verb == Add {
		return c.Dst
	}
	return netip.Prefix{}
}

func hop(a netip.Addr) string {
	if !a.IsValid() {
		return "nowhere"
	}
	return a.String()
}

package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// hostTable is the host's route table. fib.Table implements it, tests have one in memory.
type hostTable interface {
	// List returns the routes inside the pod range, one for each next hop, and what the interface of the node's
	// address reaches directly.
	List() (routes []table.Route, onLink []netip.Prefix, err error)
	// Segments returns what all interfaces of the host reach directly.
	Segments() ([]netip.Prefix, error)
	// Set makes the route to dst go through exactly these next hops. It replaces no route of others.
	Set(dst netip.Prefix, nextHops []netip.Addr) error
	// Remove removes our route to dst. One that is gone is success.
	Remove(dst netip.Prefix) error
	// Watch calls changed after each change of the table, from its own goroutine, until ctx ends or an error.
	Watch(ctx context.Context, changed func()) error
}

// speaker speaks BGP. goBGP implements it.
type speaker interface {
	State(ctx context.Context) (Speaker, error)
	// Start starts it, or starts it again without peers and announcements.
	Start(ctx context.Context, s Session) error
	// SetPeer adds a peer, or closes its session and adds it as it should be. Given a peer as it has it, it renews the
	// session, if that is half open.
	SetPeer(ctx context.Context, p Peer, restarting bool) error
	DeletePeer(ctx context.Context, addr netip.Addr) error
	Announce(dst netip.Prefix, nextHop netip.Addr) error
	// Withdraw takes an announcement back. One that is gone is success.
	Withdraw(dst netip.Prefix) error
	// Watch calls changed after each change of State, until ctx ends or an error.
	Watch(ctx context.Context, changed func()) error
}

// Options of New.
type Options struct {
	Node    string       // this node's name, required
	Addr    netip.Addr   // its address, the next hop of its range, required
	Cluster netip.Prefix // the range of all pods, required
	// Ranges are what nodes' claims are held against; zero: Cluster alone.
	Ranges table.Cluster
	Config Config
	// Pods returns what is known of the pods of this node while it is cordoned; nil: nothing ever is.
	Pods func() Pods
}

// cluster is what nodes' claims are held against.
func (o Options) cluster() table.Cluster {
	if len(o.Ranges.Pods) == 0 {
		o.Ranges.Pods = []netip.Prefix{o.Cluster.Masked()}
	}
	return o.Ranges
}

// Mode is BGP on one node. It implements keep.Mode.
type Mode struct {
	o       Options
	table   hostTable
	speaker speaker
}

// New returns the mode, which keeps its routes in host. No session is opened before the first Apply.
func New(o Options, host hostTable) *Mode {
	return &Mode{o: o, table: host, speaker: newGoBGP()}
}

// Network returns a bridged pod network: packets leave it as they are.
func (m *Mode) Network(o podnet.Options) (podnet.Network, error) { return podnet.Bridged(o) }

// Observe lists the host's routes and asks the speaker.
func (m *Mode) Observe(ctx context.Context) (Seen, error) {
	routes, onLink, err := m.table.List()
	if err != nil {
		return Seen{}, err
	}
	segments, err := m.table.Segments()
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{Routes: routes, OnLink: onLink, Segments: segments}
	if m.o.Pods != nil {
		seen.Pods = m.o.Pods()
	}
	seen.Speaker, err = m.speaker.State(ctx)
	return seen, err
}

// Plan is pure: see plan.go.
func (m *Mode) Plan(nodes []table.Node, seen Seen) table.Plan[Change] {
	return plan(m.o, nodes, seen)
}

// Apply carries out one change.
func (m *Mode) Apply(ctx context.Context, c Change) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	var err error
	switch c.Verb {
	case Start:
		err = m.speaker.Start(ctx, c.Session)
	case SetPeer:
		err = m.speaker.SetPeer(ctx, c.Peer, c.Restarting)
	case DeletePeer:
		err = m.speaker.DeletePeer(ctx, c.Peer.Addr)
	case Announce:
		err = m.speaker.Announce(c.Dst, c.Hops[0])
	case Withdraw:
		err = m.speaker.Withdraw(c.Dst)
	case Route:
		err = m.table.Set(c.Dst, c.Hops)
	case Unroute:
		err = m.table.Remove(c.Dst)
	default:
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// Watch reports changes of the host's route table and of the speaker, until one of both can no longer be watched.
func (m *Mode) Watch(ctx context.Context, changed func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- m.speaker.Watch(ctx, changed) }()
	go func() { ended <- m.table.Watch(ctx, changed) }()

	err := <-ended
	cancel()
	return errors.Join(err, ignoreCanceled(<-ended))
}

// ignoreCanceled takes the end of the context for no error.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

package fib

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
)

// watchBuffer holds what the kernel reports while the plan of a large cluster is carried out: three entries for each
// of some thousand nodes. When it is too small the subscription ends.
const watchBuffer = 16 << 20

// Watch subscribes to the routes, links and addresses of a network namespace (a path; empty: this one). If concerns is
// not nil, it also subscribes to neighbours and forwarding entries, and reports those for which concerns returns true.
// It calls changed once when the subscriptions are complete, and after each change. It returns an error when a
// subscription ends, and that of ctx.
func Watch(ctx context.Context, netns string, concerns func(netlink.Neigh) bool, changed func()) error {
	done := make(chan struct{})
	defer close(done)
	s := subscriptions{failed: make(chan error, 4), routes: make(chan netlink.RouteUpdate, 64),
		links: make(chan netlink.LinkUpdate, 64), addrs: make(chan netlink.AddrUpdate, 64)}
	if concerns != nil {
		s.neighbours = make(chan netlink.NeighUpdate, 64)
	}
	if err := platform.InNetns(netns, func() error { return s.open(done) }); err != nil {
		return fmt.Errorf("subscribing to the kernel's changes: %w", err)
	}

	changed() // there may have been changes before the subscriptions were complete
	for {
		open, ours := true, true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.failed:
			return fmt.Errorf("reading the kernel's changes: %w", err)
		case _, open = <-s.routes:
		case _, open = <-s.links:
		case _, open = <-s.addrs:
		case n, is := <-s.neighbours:
			open, ours = is, is && concerns(n.Neigh)
		}
		if !open {
			return errors.New("the kernel ended a subscription to its changes")
		}
		if ours {
			changed()
		}
	}
}

// subscriptions are what the kernel reports of one network namespace.
type subscriptions struct {
	failed     chan error
	routes     chan netlink.RouteUpdate
	links      chan netlink.LinkUpdate
	addrs      chan netlink.AddrUpdate
	neighbours chan netlink.NeighUpdate // nil: not subscribed
}

// open subscribes until done is closed. The caller is in the namespace.
func (s subscriptions) open(done <-chan struct{}) error {
	report := func(err error) {
		select {
		case s.failed <- err:
		default:
		}
	}
	err := errors.Join(
		netlink.RouteSubscribeWithOptions(s.routes, done,
			netlink.RouteSubscribeOptions{ErrorCallback: report, ReceiveBufferSize: watchBuffer,
				ReceiveBufferForceSize: true}),
		netlink.LinkSubscribeWithOptions(s.links, done, netlink.LinkSubscribeOptions{ErrorCallback: report}),
		netlink.AddrSubscribeWithOptions(s.addrs, done, netlink.AddrSubscribeOptions{ErrorCallback: report}),
	)
	if err == nil && s.neighbours != nil {
		err = netlink.NeighSubscribeWithOptions(s.neighbours, done,
			netlink.NeighSubscribeOptions{ErrorCallback: report, ReceiveBufferSize: watchBuffer,
				ReceiveBufferForceSize: true})
	}
	return err
}

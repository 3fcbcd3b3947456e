package hoststack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/rtnl"
)

// Watch subscribes to changes of the host's own IP stack: "routes", "addresses" or "interfaces". The subscription
// stands when it returns. The channel is closed when ctx ends or the kernel's stream breaks.
func (s *Stack) Watch(ctx context.Context, kind string) (<-chan Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan Event)
	err := s.h.Within(
		func() error { return subscribe(ctx, cancel, watched{kind, s}, events) })
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching %s: %w", kind, err)
	}

	return events, nil
}

// watched is what a subscription is for.
type watched struct {
	kind  string
	stack *Stack // whose settings belong to the kind "interfaces"
}

// subscribe sends the changes of one kind in the network namespace of the calling thread to events until ctx ends. It
// calls broken when the kernel's stream breaks. A change of an interface's settings is one of the interface, as
// NotifyIpInterfaceChange reports it on Windows (MibParameterNotification); the kernel does not know it.
func subscribe(ctx context.Context, broken func(), of watched, events chan<- Event) (err error) {
	failed := func(error) { broken() }
	switch of.kind {
	case "routes":
		in := make(chan netlink.RouteUpdate, 64)
		err = netlink.RouteSubscribeWithOptions(in, ctx.Done(), netlink.RouteSubscribeOptions{ErrorCallback: failed})
		if err == nil {
			go convert(ctx, in, events, routeEvent)
		}
	case "addresses":
		in := make(chan netlink.AddrUpdate, 64)
		err = netlink.AddrSubscribeWithOptions(in, ctx.Done(), netlink.AddrSubscribeOptions{ErrorCallback: failed})
		if err == nil {
			go convert(ctx, in, events, addrEvent)
		}
	case "interfaces":
		in := make(chan netlink.LinkUpdate, 64)
		err = netlink.LinkSubscribeWithOptions(in, ctx.Done(), netlink.LinkSubscribeOptions{ErrorCallback: failed})
		if err == nil {
			go convert(ctx, withSettings(ctx, in, of.stack), events, linkEvent)
		}
	default:
		err = errors.ErrUnsupported
	}

	return err
}

// withSettings adds the changes of interfaces' settings to those of the kernel, until the kernel's end.
func withSettings(ctx context.Context, links <-chan netlink.LinkUpdate, of *Stack) <-chan netlink.LinkUpdate {
	out := make(chan netlink.LinkUpdate)
	settings, stop := of.changed.Subscribe()
	go func() {
		defer close(out)
		defer stop()
		for {
			var u netlink.LinkUpdate
			select {
			case link, ok := <-links:
				if !ok {
					return
				}
				u = link
			case index := <-settings:
				u.Index = int32(index)
			}
			select {
			case out <- u:
			case <-ctx.Done(): // links must find a reader until it ends
			}
		}
	}()
	return out
}

// convert passes events on until ctx ends. The subscription's goroutine must find a reader until it has noticed the
// end.
func convert[T any](ctx context.Context, in <-chan T, out chan<- Event, event func(T) (Event, bool)) {
	defer close(out)

	for {
		select {
		case <-ctx.Done():
			go func() {
				for range in {
				}
			}()
			return
		case u, ok := <-in:
			if !ok {
				return
			}
			e, ok := event(u)
			if !ok {
				continue
			}
			select {
			case out <- e:
			case <-ctx.Done():
			}
		}
	}
}

func routeEvent(u netlink.RouteUpdate) (Event, bool) {
	if u.Table != unix.RT_TABLE_MAIN {
		return Event{}, false
	}
	e := Event{Type: eventType(u.Type, unix.RTM_NEWROUTE),
		Route: Route{Link: u.LinkIndex, Metric: uint32(u.Priority)}}
	e.Prefix = rtnl.Destination(u.Dst, u.Family)
	e.NextHop, _ = netip.AddrFromSlice(u.Gw)
	e.NextHop = e.NextHop.Unmap()
	if !e.NextHop.IsValid() {
		e.NextHop = rtnl.Destination(nil, u.Family).Addr()
	}
	return e, true
}

func addrEvent(u netlink.AddrUpdate) (Event, bool) {
	addr, ok := netip.AddrFromSlice(u.LinkAddress.IP)
	bits, _ := u.LinkAddress.Mask.Size()
	e := Event{Type: EventDelete,
		Route: Route{Link: u.LinkIndex, Prefix: netip.PrefixFrom(addr.Unmap(), bits)}}
	if u.NewAddr {
		e.Type = EventAdd
	}
	return e, ok
}

func linkEvent(u netlink.LinkUpdate) (Event, bool) {
	e := Event{Type: EventChange, Route: Route{Link: int(u.Index)}}
	if u.Header.Type == unix.RTM_DELLINK {
		e.Type = EventDelete
	}
	return e, true
}

func eventType(is, add uint16) EventType {
	if is == add {
		return EventAdd
	}
	return EventDelete
}

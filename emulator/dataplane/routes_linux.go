package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// hostRouteProtocol marks routes that a program of the host made, in `ip route`.
const hostRouteProtocol = 201

// CreateRoute adds a route to the host's table, in front of others to the same destination through other next hops.
func (d *DataPlane) CreateRoute(r HostRoute) error {
	have, err := d.findRoute(r)
	if err != nil {
		return err
	}
	if have != nil {
		return fmt.Errorf("route %s: %w", r, ErrRouteExists)
	}
	// neither exclusive nor appending: the kernel puts it first
	return r.failed("adding", d.handle.RouteAddEcmp(r.netlink()))
}

// SetRoute gives a route of the host another metric.
func (d *DataPlane) SetRoute(r HostRoute) error {
	have, err := d.findRoute(r)
	if err != nil {
		return err
	}
	if have == nil {
		return fmt.Errorf("route %s: %w", r, ErrNoRoute)
	}
	if have.Priority == int(r.Metric) {
		return nil
	}
	if err := d.handle.RouteAddEcmp(r.netlink()); err != nil {
		return r.failed("setting", err)
	}
	return r.failed("setting", d.handle.RouteDel(have))
}

// DeleteRoute removes a route of the host, regardless of who made it.
func (d *DataPlane) DeleteRoute(r HostRoute) error {
	have, err := d.findRoute(r)
	if err != nil {
		return err
	}
	if have == nil {
		return fmt.Errorf("route %s: %w", r, ErrNoRoute)
	}
	return r.failed("deleting", d.handle.RouteDel(have))
}

// findRoute looks for the route with this destination, next hop and link, regardless of its metric. It returns nil if
// there is no such route.
func (d *DataPlane) findRoute(r HostRoute) (*netlink.Route, error) {
	want := r.netlink()
	family := unix.AF_INET
	if r.Prefix.Addr().Is6() {
		family = unix.AF_INET6
	}
	filter := uint64(netlink.RT_FILTER_TABLE | netlink.RT_FILTER_DST | netlink.RT_FILTER_OIF)
	want.Table = unix.RT_TABLE_MAIN
	list, err := d.handle.RouteListFiltered(family, want, filter)
	if err != nil {
		return nil, fmt.Errorf("looking for route %s: %w", r, err)
	}
	for i := range list {
		if list[i].Gw.Equal(want.Gw) {
			return &list[i], nil
		}
	}
	return nil, nil
}

func (r HostRoute) netlink() *netlink.Route {
	n := &netlink.Route{LinkIndex: r.Link, Priority: int(r.Metric), Protocol: hostRouteProtocol,
		Dst: &net.IPNet{IP: r.Prefix.Addr().AsSlice(), Mask: net.CIDRMask(r.Prefix.Bits(), r.Prefix.Addr().BitLen())}}
	if r.NextHop.IsValid() && !r.NextHop.IsUnspecified() {
		n.Gw = r.NextHop.AsSlice()
	} else {
		n.Scope = netlink.SCOPE_LINK
	}
	return n
}

func (r HostRoute) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s route %s: %w", doing, r, err)
}

// Watch subscribes to changes of the host's own IP stack: "routes", "addresses" or "interfaces". The subscription
// stands when it returns. The channel is closed when ctx ends or the kernel's stream breaks.
func (d *DataPlane) Watch(ctx context.Context, kind string) (<-chan HostEvent, error) {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan HostEvent)
	err := platform.InNetns(d.opts.Netns,
		func() error { return subscribe(ctx, cancel, watched{kind, d.IPStack}, events) })
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching %s: %w", kind, err)
	}

	return events, nil
}

// watched is what a subscription is for.
type watched struct {
	kind  string
	stack *IPStack // whose settings belong to the kind "interfaces"
}

// subscribe sends the changes of one kind in the network namespace of the calling thread to events until ctx ends. It
// calls broken when the kernel's stream breaks. A change of an interface's settings is one of the interface, as
// NotifyIpInterfaceChange reports it on Windows (MibParameterNotification); the kernel does not know it.
func subscribe(ctx context.Context, broken func(), of watched, events chan<- HostEvent) (err error) {
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
func withSettings(ctx context.Context, links <-chan netlink.LinkUpdate, of *IPStack) <-chan netlink.LinkUpdate {
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
func convert[T any](ctx context.Context, in <-chan T, out chan<- HostEvent, event func(T) (HostEvent, bool)) {
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

func routeEvent(u netlink.RouteUpdate) (HostEvent, bool) {
	if u.Table != unix.RT_TABLE_MAIN {
		return HostEvent{}, false
	}
	e := HostEvent{Type: eventType(u.Type, unix.RTM_NEWROUTE),
		HostRoute: HostRoute{Link: u.LinkIndex, Metric: uint32(u.Priority)}}
	e.Prefix = prefixOf(u.Dst, u.Family)
	e.NextHop, _ = netip.AddrFromSlice(u.Gw)
	e.NextHop = e.NextHop.Unmap()
	if !e.NextHop.IsValid() {
		e.NextHop = prefixOf(nil, u.Family).Addr()
	}
	return e, true
}

func addrEvent(u netlink.AddrUpdate) (HostEvent, bool) {
	addr, ok := netip.AddrFromSlice(u.LinkAddress.IP)
	bits, _ := u.LinkAddress.Mask.Size()
	e := HostEvent{Type: EventDelete,
		HostRoute: HostRoute{Link: u.LinkIndex, Prefix: netip.PrefixFrom(addr.Unmap(), bits)}}
	if u.NewAddr {
		e.Type = EventAdd
	}
	return e, ok
}

func linkEvent(u netlink.LinkUpdate) (HostEvent, bool) {
	e := HostEvent{Type: EventChange, HostRoute: HostRoute{Link: int(u.Index)}}
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

// prefixOf returns a route's destination; nil stands for that of a default route.
func prefixOf(n *net.IPNet, family int) netip.Prefix {
	if n == nil && family == unix.AF_INET6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	if n == nil {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	addr, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits)
}

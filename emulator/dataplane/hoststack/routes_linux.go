package hoststack

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// RouteProtocol marks routes that a program of the host made, in `ip route`.
const RouteProtocol = 201

// CreateRoute adds a route to the host's table, in front of others to the same destination through other next hops.
func (s *Stack) CreateRoute(r Route) error {
	have, err := s.findRoute(r)
	if err != nil {
		return err
	}
	if have != nil {
		return fmt.Errorf("route %s: %w", r, ErrRouteExists)
	}
	// neither exclusive nor appending: the kernel puts it first
	return r.failed("adding", s.h.RouteAddEcmp(r.netlink()))
}

// SetRoute gives a route of the host another metric.
func (s *Stack) SetRoute(r Route) error {
	have, err := s.findRoute(r)
	if err != nil {
		return err
	}
	if have == nil {
		return fmt.Errorf("route %s: %w", r, ErrNoRoute)
	}
	if have.Priority == int(r.Metric) {
		return nil
	}
	if err := s.h.RouteAddEcmp(r.netlink()); err != nil {
		return r.failed("setting", err)
	}
	return r.failed("setting", s.h.RouteDel(have))
}

// DeleteRoute removes a route of the host, regardless of who made it.
func (s *Stack) DeleteRoute(r Route) error {
	have, err := s.findRoute(r)
	if err != nil {
		return err
	}
	if have == nil {
		return fmt.Errorf("route %s: %w", r, ErrNoRoute)
	}
	return r.failed("deleting", s.h.RouteDel(have))
}

// findRoute looks for the route with this destination, next hop and link, regardless of its metric. It returns nil if
// there is no such route.
func (s *Stack) findRoute(r Route) (*netlink.Route, error) {
	want := r.netlink()
	family := unix.AF_INET
	if r.Prefix.Addr().Is6() {
		family = unix.AF_INET6
	}
	filter := uint64(netlink.RT_FILTER_TABLE | netlink.RT_FILTER_DST | netlink.RT_FILTER_OIF)
	want.Table = unix.RT_TABLE_MAIN
	list, err := s.h.RouteListFiltered(family, want, filter)
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

func (r Route) netlink() *netlink.Route {
	n := &netlink.Route{LinkIndex: r.Link, Priority: int(r.Metric), Protocol: RouteProtocol,
		Dst: platform.IPNet(r.Prefix)}
	if r.NextHop.IsValid() && !r.NextHop.IsUnspecified() {
		n.Gw = r.NextHop.AsSlice()
	} else {
		n.Scope = netlink.SCOPE_LINK
	}
	return n
}

func (r Route) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s route %s: %w", doing, r, err)
}

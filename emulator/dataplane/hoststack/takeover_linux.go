package hoststack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/rtnl"
)

// TakeDown takes the IP stack off a network card, as Windows does while a virtual switch takes the card over: the link
// is down, and has neither addresses nor routes, until PutBack. Connections of the host's own programs are aborted.
// before is called with what PutBack will give it, while the card still has all. Routes that programs of the host made
// do not come back; nor do those of the administrator if losesRoutes is true.
func (s *Stack) TakeDown(index int, losesRoutes bool, before func(Card) error) (Card, error) {
	link, err := s.h.LinkByIndex(index)
	if err != nil {
		return Card{}, fmt.Errorf("taking network card %d over: %w", index, err)
	}
	stack, err := cardOf(s.h, link, losesRoutes)
	if err == nil {
		err = before(stack)
	}
	if err != nil {
		return stack, fmt.Errorf("taking network card %s over: %w", stack.Link, err)
	}

	s.setAway(&stack) // before the addresses go, so that the rules go on with them
	if err := s.h.LinkSetDown(link); err != nil {
		return stack, fmt.Errorf("taking network card %s down: %w", stack.Link, err)
	}
	addrs, err := s.h.AddrList(link, netlink.FAMILY_ALL)
	for i := range addrs {
		if err := s.h.AddrDel(link, &addrs[i]); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return stack, fmt.Errorf("taking address %s off network card %s: %w", addrs[i].IPNet, stack.Link, err)
		}
	}
	return stack, errors.Join(err, s.abortConnections(stack.Addrs))
}

// abortConnections ends the TCP connections of the host's programs that have one of the addresses. The other ends are
// not told, since the card is away. Those of IPv6 go on.
func (s *Stack) abortConnections(addrs []netip.Prefix) error {
	const listen, timeWait = 10, 6 // TCP_LISTEN and TCP_TIME_WAIT of the kernel's tcp_states.h
	return s.h.Within(func() error {
		var failed error

		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} { // a socket of IPv6 can have a connection of IPv4
			sockets, err := netlink.SocketDiagTCP(family)
			if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
				return fmt.Errorf("listing the connections of the host: %w", err)
			}
			for _, c := range sockets {
				local, _ := netip.AddrFromSlice(c.ID.Source)
				local = local.Unmap()
				if c.State == listen || c.State == timeWait || !local.Is4() ||
					!slices.ContainsFunc(addrs, func(a netip.Prefix) bool { return a.Addr() == local }) {
					continue
				}
				err := netlink.SocketDestroy(&net.TCPAddr{IP: c.ID.Source, Port: int(c.ID.SourcePort)},
					&net.TCPAddr{IP: c.ID.Destination, Port: int(c.ID.DestinationPort)})
				if err != nil && !errors.Is(err, unix.ENOENT) {
					failed = errors.Join(failed,
						fmt.Errorf("ending the connection of %s to %s: %w", local, c.ID.Destination, err))
				}
			}
		}
		return failed
	})
}

// PutBack gives a network card what TakeDown said. It can be repeated.
func (s *Stack) PutBack(stack Card) error {
	link, err := s.h.Named(stack.Link)
	if err != nil || link == nil {
		return errors.Join(fmt.Errorf("giving network card %s its addresses: there is no such link", stack.Link), err)
	}
	if err := s.h.LinkSetUp(link); err != nil {
		return fmt.Errorf("network card %s: %w", stack.Link, err)
	}
	if _, err := s.h.LinkByName(stack.Link); err != nil { // has the kernel see the carrier now, as in links
		return err
	}
	for _, a := range stack.Addrs {
		if err := s.h.AddrReplace(link, rtnl.Addr(a)); err != nil {
			return fmt.Errorf("giving network card %s its address %s: %w", stack.Link, a, err)
		}
	}

	var failed error
	for _, r := range stack.Routes {
		n := Route{Prefix: r.Prefix, NextHop: r.NextHop, Link: link.Attrs().Index,
			Metric: uint32(r.Metric)}.netlink()
		n.Protocol = netlink.RouteProtocol(r.Protocol)
		if err := s.h.RouteAddEcmp(n); err != nil && !errors.Is(err, unix.EEXIST) {
			failed = errors.Join(failed,
				fmt.Errorf("giving network card %s its route %s: %w", stack.Link, r.Prefix, err))
		}
	}
	s.setAway(nil)
	return failed
}

func (s *Stack) setAway(stack *Card) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = stack
}

// Lacks returns what a link lacks during a takeover; nil: nothing.
func (s *Stack) Lacks(link string) *Card {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away == nil || s.away.Link != link {
		return nil
	}
	return s.away
}

// DropRoutes removes the routes of a network card that do not outlive a takeover, as TakeDown does.
func (s *Stack) DropRoutes(index int, losesRoutes bool) error {
	link, err := s.h.LinkByIndex(index)
	if err != nil {
		return fmt.Errorf("taking network card %d over: %w", index, err)
	}
	routes, err := cardRoutes(s.h, link)
	var failed error
	for i := range routes {
		if !survives(routes[i], losesRoutes) {
			failed = errors.Join(failed, s.h.RouteDel(&routes[i]))
		}
	}
	return errors.Join(err, failed)
}

func cardOf(h *rtnl.Handle, link netlink.Link, losesRoutes bool) (Card, error) {
	stack := Card{Link: link.Attrs().Name}
	addrs, err := h.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return stack, err
	}
	stack.Addrs = rtnl.Prefixes(addrs)
	routes, err := cardRoutes(h, link)
	for _, r := range routes {
		if !survives(r, losesRoutes) {
			continue
		}
		hop, _ := netip.AddrFromSlice(r.Gw)
		stack.Routes = append(stack.Routes,
			CardRoute{Prefix: rtnl.Destination(r.Dst, r.Family), NextHop: hop.Unmap(), Metric: r.Priority,
				Protocol: int(r.Protocol)})
	}
	return stack, err
}

// cardRoutes lists the routes by a link that the kernel did not make itself.
func cardRoutes(h *rtnl.Handle, link netlink.Link) ([]netlink.Route, error) {
	routes, err := h.RouteList(link, netlink.FAMILY_ALL)
	return slices.DeleteFunc(routes, func(r netlink.Route) bool {
		return r.Protocol == unix.RTPROT_KERNEL || r.Protocol == unix.RTPROT_RA || r.Type != unix.RTN_UNICAST ||
			r.Table != unix.RT_TABLE_MAIN
	}), err
}

// survives reports whether a route comes back after a takeover. Default routes do, as they belong to the addresses'
// settings.
func survives(r netlink.Route, losesRoutes bool) bool {
	if r.Protocol == RouteProtocol {
		return false
	}
	return !losesRoutes || rtnl.Destination(r.Dst, r.Family).Bits() == 0
}

package hoststack

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/rtnl"
)

// CopyAddrs gives to the addresses of from that the kernel did not make itself.
func (s *Stack) CopyAddrs(from, to netlink.Link) error {
	addrs, err := s.h.AddrList(from, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("reading addresses of %s: %w", from.Attrs().Name, err)
	}
	for _, p := range rtnl.Prefixes(addrs) {
		if err := s.h.AddrReplace(to, rtnl.Addr(p)); err != nil {
			return fmt.Errorf("giving %s address %s: %w", to.Attrs().Name, p, err)
		}
	}
	return nil
}

// Move moves routes and forwarding to a link that has the addresses of from already, and then takes those off
// from.
func (s *Stack) Move(from, to netlink.Link) error {
	for _, six := range []bool{false, true} {
		if have, err := s.Interface(from.Attrs().Index, six); err == nil && have.Forwarding {
			if err := s.SetForwarding(to.Attrs().Index, six, true); err != nil {
				return err
			}
		}
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := s.h.RouteList(from, family)
		if err != nil {
			return fmt.Errorf("reading routes: %w", err)
		}
		for _, r := range routes {
			if r.Protocol == unix.RTPROT_KERNEL || r.Type != unix.RTN_UNICAST {
				continue
			}
			// the others say how the kernel sees it
			r.LinkIndex, r.Flags = to.Attrs().Index, r.Flags&int(netlink.FLAG_ONLINK)
			if err := s.h.RouteReplace(&r); err != nil {
				return fmt.Errorf("moving route %s: %w", routeText(r), err)
			}
		}
	}

	addrs, err := s.h.AddrList(from, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for i := range addrs {
		if ip := addrs[i].IP; ip.To4() == nil && ip.IsLinkLocalUnicast() {
			continue
		}
		if err := s.h.AddrDel(from, &addrs[i]); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("taking address %s off %s: %w", addrs[i].IPNet, from.Attrs().Name, err)
		}
	}
	return nil
}

func routeText(r netlink.Route) string {
	if r.Dst == nil {
		return "default via " + net.IP(r.Gw).String()
	}
	return r.Dst.String()
}

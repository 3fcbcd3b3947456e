// Package rtnl speaks with the kernel about the links, addresses and routes of a network namespace, by the library
// netlink and in the words of net/netip.
package rtnl

import (
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// Addr is an address that HNS gives a link.
func Addr(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: platform.IPNet(p)}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD // nobody else has it: HNS gives addresses out
	}
	return a
}

// Anywhere is the destination of a default route beside an address of its family.
func Anywhere(gw netip.Addr) *net.IPNet {
	if gw.Is6() {
		return platform.IPNet(netip.PrefixFrom(netip.IPv6Unspecified(), 0))
	}
	return platform.IPNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0))
}

// Prefixes leaves out the addresses that the kernel gives each link.
func Prefixes(addrs []netlink.Addr) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range addrs {
		if ip, _ := netip.AddrFromSlice(a.IP); ip.Unmap().Is4() || !ip.IsLinkLocalUnicast() {
			ones, _ := a.Mask.Size()
			out = append(out, netip.PrefixFrom(ip.Unmap(), ones))
		}
	}
	slices.SortFunc(out, func(x, y netip.Prefix) int { return x.Addr().Compare(y.Addr()) })
	return out
}

// Destination returns a route's destination; nil stands for that of a default route.
func Destination(n *net.IPNet, family int) netip.Prefix {
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

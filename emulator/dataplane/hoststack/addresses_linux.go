package hoststack

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
	"porthole.dev/porthole/internal/platform"
)

// CreateAddress gives an interface of the host an address. As on Windows no two interfaces can have the same.
func (s *Stack) CreateAddress(link int, addr netip.Prefix) error {
	if _, err := s.h.LinkByIndex(link); err != nil {
		return fmt.Errorf("adding address %s to link %d: %w", addr, link, ErrNoInterface)
	}
	all, err := s.h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing addresses of the host: %w", err)
	}
	for _, a := range all {
		if have, ok := netip.AddrFromSlice(a.IP); ok && have.Unmap() == addr.Addr() {
			return fmt.Errorf("adding address %s to link %d: %w", addr, link, ErrAddressExists)
		}
	}
	n := &netlink.Addr{IPNet: platform.IPNet(addr)}
	if addr.Addr().Is6() {
		n.Flags = unix.IFA_F_NODAD // IpDadStatePreferred: it is usable at once
	}
	if err := s.h.AddrAdd(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: link}}, n); err != nil {
		return fmt.Errorf("adding address %s to link %d: %w", addr, link, err)
	}
	return nil
}

// DeleteAddress takes an address off an interface of the host, regardless of who put it there.
func (s *Stack) DeleteAddress(link int, addr netip.Addr) error {
	all, err := s.h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing addresses of the host: %w", err)
	}
	for i := range all {
		if have, ok := netip.AddrFromSlice(all[i].IP); ok && have.Unmap() == addr && all[i].LinkIndex == link {
			if err := s.h.AddrDel(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: link}},
				&all[i]); err != nil {
				return fmt.Errorf("removing address %s from link %d: %w", addr, link, err)
			}
			return nil
		}
	}
	return fmt.Errorf("removing address %s from link %d: %w", addr, link, ErrNoAddress)
}

// Links returns the interfaces of the host, by index, with their addresses.
func (s *Stack) Links() ([]Link, error) {
	links, err := s.h.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing interfaces of the host: %w", err)
	}
	addrs, err := s.h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("listing addresses of the host: %w", err)
	}
	var list []Link
	for _, l := range links {
		a := l.Attrs()
		list = append(list, Link{Index: a.Index, Name: a.Name, Loopback: a.Flags&net.FlagLoopback != 0,
			Tap: l.Type() == "tuntap", Card: a.EncapType == "ether" && l.Type() != "tuntap" && !kernel.Ours(a.Name),
			Addrs: rtnl.Prefixes(slices.DeleteFunc(slices.Clone(addrs),
				func(x netlink.Addr) bool { return x.LinkIndex != a.Index }))})
	}
	slices.SortFunc(list, func(a, b Link) int { return cmp.Compare(a.Index, b.Index) })
	return list, nil
}

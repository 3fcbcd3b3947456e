package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Errors of changes to the host's addresses.
var (
	ErrAddressExists = errors.New("the host has it already")
	ErrNoAddress     = errors.New("the interface does not have it")
	ErrNoInterface   = errors.New("there is no such interface")
)

// CreateAddress gives an interface of the host an address. As on Windows no two interfaces can have the same.
func (d *DataPlane) CreateAddress(link int, addr netip.Prefix) error {
	if _, err := d.handle.LinkByIndex(link); err != nil {
		return fmt.Errorf("adding address %s to link %d: %w", addr, link, ErrNoInterface)
	}
	all, err := d.handle.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing addresses of the host: %w", err)
	}
	for _, a := range all {
		if have, ok := netip.AddrFromSlice(a.IP); ok && have.Unmap() == addr.Addr() {
			return fmt.Errorf("adding address %s to link %d: %w", addr, link, ErrAddressExists)
		}
	}
	n := &netlink.Addr{IPNet: netOf(addr)}
	if addr.Addr().Is6() {
		n.Flags = unix.IFA_F_NODAD // IpDadStatePreferred: it is usable at once
	}
	if err := d.handle.AddrAdd(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: link}}, n); err != nil {
		return fmt.Errorf("adding address %s to link %d: %w", addr, link, err)
	}
	return nil
}

// DeleteAddress takes an address off an interface of the host, regardless of who put it there.
func (d *DataPlane) DeleteAddress(link int, addr netip.Addr) error {
	all, err := d.handle.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing addresses of the host: %w", err)
	}
	for i := range all {
		if have, ok := netip.AddrFromSlice(all[i].IP); ok && have.Unmap() == addr && all[i].LinkIndex == link {
			if err := d.handle.AddrDel(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: link}},
				&all[i]); err != nil {
				return fmt.Errorf("removing address %s from link %d: %w", addr, link, err)
			}
			return nil
		}
	}
	return fmt.Errorf("removing address %s from link %d: %w", addr, link, ErrNoAddress)
}

func netOf(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Links returns the interfaces of the host, by index, with their addresses.
func (s *IPStack) Links() ([]Link, error) {
	links, err := s.handle.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing interfaces of the host: %w", err)
	}
	addrs, err := s.handle.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("listing addresses of the host: %w", err)
	}
	var list []Link
	for _, l := range links {
		a := l.Attrs()
		list = append(list, Link{Index: a.Index, Name: a.Name, Loopback: a.Flags&net.FlagLoopback != 0,
			Tap: l.Type() == "tuntap", Card: a.EncapType == "ether" && l.Type() != "tuntap" && !ours(a.Name),
			Addrs: prefixes(slices.DeleteFunc(slices.Clone(addrs),
				func(x netlink.Addr) bool { return x.LinkIndex != a.Index }))})
	}
	slices.SortFunc(list, func(a, b Link) int { return cmp.Compare(a.Index, b.Index) })
	return list, nil
}

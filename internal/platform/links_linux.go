package platform

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The functions of this file act on the network namespace of the calling thread; see InNetns. All but CreateVeth can
// be repeated.

// CreateVeth makes a pair of interfaces: one called name in this network namespace, the other called peer in the one
// at peerPath. Both are down.
func CreateVeth(name, peer, peerPath string) error {
	far, err := os.Open(peerPath)
	if err != nil {
		return fmt.Errorf("linking %s to %s: opening the network namespace of %s: %w", name, peer, peer, err)
	}
	defer far.Close()

	link := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: peer, PeerNamespace: netlink.NsFd(far.Fd())}
	link.Name = name
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("linking %s to %s: %w", name, peer, err)
	}
	return nil
}

// LinkUp sets an interface up.
func LinkUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting interface %s up: %w", name, err)
	}
	return nil
}

// LinkExists reports whether there is an interface of that name.
func LinkExists(name string) (bool, error) {
	_, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return false, nil
	}
	return err == nil, err
}

// DeleteLink removes an interface, and with one end of a veth pair the other too. Absent is success.
func DeleteLink(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	return netlink.LinkDel(link)
}

// JoinBridge makes an interface a port of a bridge.
func JoinBridge(name, bridge string) error {
	port, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", bridge, err)
	}
	if err := netlink.LinkSetMaster(port, master); err != nil {
		return fmt.Errorf("joining %s to bridge %s: %w", name, bridge, err)
	}
	return nil
}

// unlimited is the lifetime of an address that does not end (Linux include/net/addrconf.h, INFINITY_LIFE_TIME).
const unlimited = 1<<32 - 1

// SetAddress gives an interface an address beside those that it has. It writes nothing if the interface has the
// address already: the kernel would report that as a change, and Open vSwitch would make the ends of its tunnels anew.
// An IPv6 address can be used at once: nobody is asked first whether it is in use already (duplicate address
// detection, RFC 4862, would take a second).
func SetAddress(name string, prefix netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	addr := &netlink.Addr{IPNet: IPNet(prefix)}
	if prefix.Addr().Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	have, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing the addresses of %s: %w", name, err)
	}
	if slices.ContainsFunc(have,
		func(a netlink.Addr) bool { return a.Equal(*addr) && uint32(a.ValidLft) == unlimited }) {
		return nil
	}

	if err := netlink.AddrReplace(link, addr); err != nil {
		return fmt.Errorf("address %s on %s: %w", prefix, name, err)
	}
	return nil
}

// SetRoute sends packets for a prefix to a gateway, which must be on a link of this network namespace.
func SetRoute(to netip.Prefix, via netip.Addr) error {
	if err := netlink.RouteReplace(&netlink.Route{Dst: IPNet(to), Gw: via.AsSlice()}); err != nil {
		return fmt.Errorf("route to %s via %s: %w", to, via, err)
	}
	return nil
}

// SetLinkRoute sends packets for a prefix out of an interface, without a gateway.
func SetLinkRoute(to netip.Prefix, name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if err := netlink.RouteReplace(&netlink.Route{Dst: IPNet(to), LinkIndex: link.Attrs().Index,
		Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("route to %s through %s: %w", to, name, err)
	}
	return nil
}

// SetSysctls writes kernel settings, by their path below /proc/sys. One that this kernel does not have is passed over.
func SetSysctls(values map[string]string) error {
	for name, value := range values {
		err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// IPNet is a prefix in the form that netlink takes.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

package proxylab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// Uplink is the name of every host's interface to the switch.
const Uplink = "eth0"

// veth links two namespaces; both ends are up.
func veth(nsA, nameA, nsB, nameB string) error {
	far, err := netns.GetFromPath(nsB)
	if err != nil {
		return err
	}
	defer far.Close()
	err = platform.InNetns(nsA, func() error {
		link := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: nameB, PeerNamespace: netlink.NsFd(far)}
		link.Name = nameA
		if err := netlink.LinkAdd(link); err != nil {
			return fmt.Errorf("linking %s to %s: %w", nameA, nameB, err)
		}
		return up(nameA)
	})
	if err != nil {
		return err
	}
	return platform.InNetns(nsB, func() error { return up(nameB) })
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	return netlink.LinkSetUp(link)
}

// addresses gives an interface of the current namespace its addresses and sets it up.
func addresses(name string, list ...netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	for _, p := range list {
		addr := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD // usable at once
		}
		if err := netlink.AddrReplace(link, addr); err != nil && !noIPv6(p, err) {
			return fmt.Errorf("address %s on %s: %w", p, name, err)
		}
	}
	return nil
}

// noIPv6 tells whether the kernel refuses because it has no IPv6; a Lab is then one of IPv4 only.
func noIPv6(p netip.Prefix, err error) bool {
	return p.Addr().Is6() && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EACCES))
}

func enslave(name, bridge string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return err
	}
	return netlink.LinkSetMaster(link, master)
}

// route sends packets for a prefix to a gateway that is on a link of the current namespace.
func route(to netip.Prefix, via netip.Addr) error {
	err := netlink.RouteReplace(&netlink.Route{Dst: ipNet(to), Gw: via.AsSlice()})
	if err != nil && !noIPv6(to, err) {
		return fmt.Errorf("route to %s via %s: %w", to, via, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// forwarding makes the current namespace a router. A setting that this kernel does not have is passed over.
func forwarding() error {
	for name, value := range map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1", "net/ipv4/conf/all/send_redirects": "0",
		"net/ipv4/conf/default/send_redirects": "0", "net/bridge/bridge-nf-call-iptables": "0", "net/bridge/bridge-nf-call-ip6tables": "0",
		"net/ipv4/conf/all/rp_filter": "0", "net/ipv4/conf/default/rp_filter": "0",
	} {
		err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

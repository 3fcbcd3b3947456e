package lab

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// Uplink is the name of every host's interface to the switch.
const Uplink = "eth0"

// veth links two namespaces; both ends are up.
func veth(nsA, nameA, nsB, nameB string) error {
	err := platform.InNetns(nsA, func() error {
		if err := platform.CreateVeth(nameA, nameB, nsB); err != nil {
			return err
		}
		return platform.LinkUp(nameA)
	})
	if err != nil {
		return err
	}
	return platform.InNetns(nsB, func() error { return platform.LinkUp(nameB) })
}

// addresses gives an interface of the current namespace its addresses and sets it up.
func addresses(name string, list ...netip.Prefix) error {
	if err := platform.LinkUp(name); err != nil {
		return err
	}
	for _, p := range list {
		if err := platform.SetAddress(name, p); err != nil && !noIPv6(p, err) {
			return err
		}
	}
	return nil
}

// noIPv6 reports whether the kernel refuses because it has no IPv6; a Lab is then one of IPv4 only.
func noIPv6(p netip.Prefix, err error) bool {
	return p.Addr().Is6() && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.EACCES))
}

// route sends packets for a prefix to a gateway that is on a link of the current namespace.
func route(to netip.Prefix, via netip.Addr) error {
	if err := platform.SetRoute(to, via); err != nil && !noIPv6(to, err) {
		return err
	}
	return nil
}

// defaultRoutes leads everything in both families to gateways.
func defaultRoutes(via, via6 netip.Addr) error {
	return errors.Join(route(netip.PrefixFrom(netip.IPv4Unspecified(), 0), via),
		route(netip.PrefixFrom(netip.IPv6Unspecified(), 0), via6))
}

// forwarding makes the current namespace a router.
func forwarding() error {
	return platform.SetSysctls(map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1", "net/ipv4/conf/all/send_redirects": "0",
		"net/ipv4/conf/default/send_redirects": "0", "net/bridge/bridge-nf-call-iptables": "0",
		"net/bridge/bridge-nf-call-ip6tables": "0",
		"net/ipv4/conf/all/rp_filter":         "0", "net/ipv4/conf/default/rp_filter": "0",
	})
}

package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// The addresses of a local cluster. All of them exist only inside namespaces that this package makes.
var (
	Underlay = netip.MustParsePrefix("10.99.0.0/24")
	Router   = netip.MustParseAddr("10.99.0.1")
	// a host of the outside world (RFC 5737, TEST-NET-3), on the router's lo
	Outside    = netip.MustParseAddr("203.0.113.1")
	PodRange   = netip.MustParsePrefix("10.244.0.0/16")
	ServiceIPs = netip.MustParsePrefix("10.96.0.0/16")
	ClusterDNS = netip.MustParseAddr("10.96.0.10")

	// The same of IPv6 (RFC 4193), for clusters that have both families.
	Underlay6   = netip.MustParsePrefix("fd00:10:99::/64")
	ServiceIPs6 = netip.MustParsePrefix("fd00:10:96::/112")
)

// Taken returns the ranges that pods and further network cards cannot have.
func Taken() []netip.Prefix {
	return []netip.Prefix{Underlay, Underlay6, netip.PrefixFrom(Outside, 24).Masked()}
}

// Six returns the address of IPv6 that belongs to an address of Underlay: of the same number in Underlay6.
func Six(addr netip.Addr) netip.Addr {
	b, four := Underlay6.Addr().As16(), addr.As4()
	b[15] = four[3]
	return netip.AddrFrom16(b)
}

// EnsureSix gives a host that EnsureHost has made, and the router, addresses of IPv6, and lets both forward it. It can
// be repeated.
func (l Lab) EnsureSix(host string, addr netip.Addr) error {
	forward := map[string]string{"net/ipv6/conf/all/forwarding": "1"}
	err := platform.InNetns(platform.NetnsPath(l.RouterNetns()), func() error {
		return errors.Join(
			platform.SetAddress(switchName, netip.PrefixFrom(Six(Router), Underlay6.Bits())),
			platform.SetSysctls(forward),
			platform.SetSysctls(map[string]string{"net/bridge/bridge-nf-call-ip6tables": "0"}),
		)
	})
	if err != nil {
		return err
	}
	return platform.InNetns(platform.NetnsPath(l.Netns(host)), func() error {
		return errors.Join(
			platform.SetAddress(Uplink, netip.PrefixFrom(Six(addr), Underlay6.Bits())),
			platform.SetSysctls(forward),
			platform.SetRoute(netip.PrefixFrom(netip.IPv6Unspecified(), 0), Six(Router)),
		)
	})
}

// Uplink is the name of every host's interface towards the router.
const Uplink = "eth0"

const switchName = "sw0"

// Lab is the network of a local cluster, by the cluster's name. Each network has a router and hosts of its own, in
// network namespaces that nothing connects to those of another. So all networks have the same addresses.
type Lab string

// Default is the network of the cluster without a name, and of hosts that belong to no cluster.
const Default Lab = ""

// prefix begins the names of the network's namespaces. Names of the default network begin with "porthole-", and those
// of no other network do.
func (l Lab) prefix() string {
	if l == Default {
		return "porthole-"
	}
	return "porthole." + string(l) + "-"
}

// Netns is the network namespace of a host.
func (l Lab) Netns(host string) string { return l.prefix() + host }

// RouterNetns is the network namespace of the router.
func (l Lab) RouterNetns() string { return l.prefix() + "tor" }

// Cgroup is that of a host's programs, in all hierarchies.
func (l Lab) Cgroup(host string) string {
	if l == Default {
		return "/porthole/" + host
	}
	return "/porthole." + string(l) + "/" + host
}

// EnsureRouter makes the router's namespace, its switch and the outside address.
func (l Lab) EnsureRouter() error {
	if err := platform.CreateNetns(l.RouterNetns()); err != nil {
		return err
	}

	return platform.InNetns(platform.NetnsPath(l.RouterNetns()), func() error {
		if err := platform.LinkUp("lo"); err != nil {
			return err
		}
		if err := platform.CreateBridge(switchName); err != nil {
			return err
		}
		if err := platform.LinkUp(switchName); err != nil {
			return err
		}
		if err := platform.SetAddress(switchName, netip.PrefixFrom(Router, Underlay.Bits())); err != nil {
			return err
		}
		if err := platform.SetAddress("lo", netip.PrefixFrom(Outside, 32)); err != nil {
			return err
		}
		return platform.SetSysctls(map[string]string{
			"net/ipv4/ip_forward":                "1",
			"net/ipv4/conf/all/send_redirects":   "0",
			"net/ipv4/conf/sw0/send_redirects":   "0",
			"net/bridge/bridge-nf-call-iptables": "0", // a switch does not look into packets
		})
	})
}

// EnsureHost makes the host's namespace and joins it to the router with the given address of Underlay.
func (l Lab) EnsureHost(host string, addr netip.Addr) error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	return l.ensureHost(host, addr)
}

// AddHost is EnsureHost for a host that must not share its address: with addr if it is valid, else with the first free
// address from first on.
func (l Lab) AddHost(host string, addr, first netip.Addr) (netip.Addr, error) {
	unlock, err := lock()
	if err != nil {
		return addr, err
	}
	defer unlock()
	used, err := l.addresses()
	if err != nil {
		return addr, err
	}
	if addr, err = chooseAddress(addr, first, used); err != nil {
		return addr, err
	}
	return addr, l.ensureHost(host, addr)
}

// chooseAddress checks the wanted address, or finds a free one. used gives the host of each address.
func chooseAddress(want, first netip.Addr, used map[netip.Addr]string) (netip.Addr, error) {
	if want.IsValid() {
		switch {
		case !Underlay.Contains(want) || want == Underlay.Addr() || want.As4()[3] == 255:
			return want, fmt.Errorf("address %s is not one of a host in %s", want, Underlay)
		case used[want] != "":
			return want, fmt.Errorf("address %s is in use by %s", want, used[want])
		}
		return want, nil
	}
	for a := first; Underlay.Contains(a) && a.As4()[3] < 255; a = a.Next() {
		if used[a] == "" {
			return a, nil
		}
	}
	return want, fmt.Errorf("no free address from %s on in %s", first, Underlay)
}

// addresses tells which host has which address of Underlay.
func (l Lab) addresses() (map[netip.Addr]string, error) {
	used := map[netip.Addr]string{Router: "the router"}
	hosts, err := l.Hosts()
	if err != nil {
		return nil, err
	}

	for _, host := range hosts {
		if !platform.NetnsExists(l.Netns(host)) {
			continue
		}
		err := platform.InNetns(platform.NetnsPath(l.Netns(host)), func() error {
			link, err := netlink.LinkByName(Uplink)
			if errors.As(err, &netlink.LinkNotFoundError{}) {
				return nil
			}
			if err != nil {
				return err
			}
			addrs, err := netlink.AddrList(link, unix.AF_INET)
			for _, a := range addrs {
				if ip, ok := netip.AddrFromSlice(a.IP.To4()); ok {
					used[ip] = "host " + host
				}
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading addresses of host %s: %w", host, err)
		}
	}
	return used, nil
}

// lock lets one process at a time change who is joined to the router.
func lock() (unlock func(), err error) {
	unlock, err = platform.LockFile("/run/porthole-lab.lock", 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the network between hosts: %w", err)
	}
	return unlock, nil
}

// ensureHost makes the host's network namespace and its link to the router, and configures both; it may be repeated.
// The host forwards, as Windows nodes do for their pods, and sends no redirects, because the router decides the paths.
func (l Lab) ensureHost(host string, addr netip.Addr) error {
	if err := l.EnsureRouter(); err != nil {
		return err
	}
	if err := platform.CreateNetns(l.Netns(host)); err != nil {
		return err
	}
	if err := l.ensureVeth(host); err != nil {
		return fmt.Errorf("joining host %s to %s: %w", host, l.RouterNetns(), err)
	}

	return platform.InNetns(platform.NetnsPath(l.Netns(host)), func() error {
		for _, name := range []string{"lo", Uplink} {
			if err := platform.LinkUp(name); err != nil {
				return err
			}
		}
		if err := platform.SetAddress(Uplink, netip.PrefixFrom(addr, Underlay.Bits())); err != nil {
			return err
		}
		if err := platform.SetRoute(netip.PrefixFrom(netip.IPv4Unspecified(), 0), Router); err != nil {
			return fmt.Errorf("default route of %s: %w", host, err)
		}
		return platform.SetSysctls(map[string]string{"net/ipv4/ip_forward": "1",
			"net/ipv4/conf/all/send_redirects": "0"})
	})
}

// RemoveHost removes the host's namespace and its link. Absent is success. Its processes must have ended before.
func (l Lab) RemoveHost(host string) error {
	if platform.NetnsExists(l.RouterNetns()) {
		err := platform.InNetns(platform.NetnsPath(l.RouterNetns()), func() error {
			return errors.Join(platform.DeleteLink(host), l.removeCards(host))
		})
		if err != nil {
			return fmt.Errorf("unlinking host %s: %w", host, err)
		}
	}
	return platform.DeleteNetns(l.Netns(host))
}

// RemoveRouter removes the router's namespace if no host is joined to it any more.
func (l Lab) RemoveRouter() error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	if !platform.NetnsExists(l.RouterNetns()) {
		return platform.DeleteNetns(l.RouterNetns())
	}
	joined := 0
	err = platform.InNetns(platform.NetnsPath(l.RouterNetns()), func() error {
		links, err := netlink.LinkList()
		for _, link := range links {
			if link.Type() == "veth" {
				joined++
			}
		}
		return err
	})
	if err != nil || joined > 0 {
		return err
	}
	return platform.DeleteNetns(l.RouterNetns())
}

// Hosts lists the hosts that have a namespace, sorted by name.
func (l Lab) Hosts() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(platform.NetnsDir, l.prefix()+"*"))
	var hosts []string
	for _, p := range paths {
		if name := filepath.Base(p); name != l.RouterNetns() {
			hosts = append(hosts, strings.TrimPrefix(name, l.prefix()))
		}
	}
	return hosts, err
}

// ensureVeth makes the pair {host in the router, eth0 in the host}. The router's end carries the host's name.
func (l Lab) ensureVeth(host string) error {
	return platform.InNetns(platform.NetnsPath(l.RouterNetns()), func() error {
		there, err := platform.LinkExists(host)
		if err == nil && !there {
			err = platform.CreateVeth(host, Uplink, platform.NetnsPath(l.Netns(host)))
		}
		if err != nil {
			return err
		}
		if err := platform.JoinBridge(host, switchName); err != nil {
			return err
		}
		return platform.LinkUp(host)
	})
}

package platform

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// List returns the names of all interfaces, and all unicast addresses of this host.
func (Addresses) List() (interfaces []string, addrs []HostAddress, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, nil, fmt.Errorf("listing interfaces: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
		interfaces = append(interfaces, l.Attrs().Name)
	}
	listed, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, nil, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range listed {
		addr, ok := netip.AddrFromSlice(a.IP)
		bits, _ := a.Mask.Size()
		if name := names[a.LinkIndex]; ok && name != "" {
			addrs = append(addrs, HostAddress{Interface: name, Addr: addr.Unmap(), Bits: bits})
		}
	}
	return interfaces, addrs, nil
}

// Add gives an interface an address, with a prefix that covers this address only. The host does not use it as the
// source of its own connections. An address that is already there is success.
func (Addresses) Add(iface string, addr netip.Addr) error {
	link, err := netlink.LinkByName(iface)
	if err != nil {
		return fmt.Errorf("adding address %s to %s: %w", addr, iface, err)
	}
	a := &netlink.Addr{IPNet: single(addr), Scope: unix.RT_SCOPE_UNIVERSE, Flags: unix.IFA_F_NOPREFIXROUTE}
	if addr.Is6() {
		// Without duplicate address detection, which would take seconds. A deprecated address (RFC 4862) is not the
		// source of new traffic.
		a.Flags |= unix.IFA_F_NODAD
		a.PreferedLft, a.ValidLft = 0, int(^uint32(0)>>1)
	}
	if err := netlink.AddrAdd(link, a); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("adding address %s to %s: %w", addr, iface, err)
	}
	if addr.Is6() && link.Attrs().Flags&net.FlagUp != 0 {
		awaitLocal(addr)
	}
	return nil
}

// localLimit bounds the wait for the route of a new IPv6 address. Without load it is there after less than a
// millisecond.
const localLimit = 500 * time.Millisecond

// awaitLocal waits until the kernel has the route by which this host reaches an IPv6 address of its own. The kernel
// makes it in the background (addrconf_dad_work), without detection of duplicates too: until then a program can listen
// at the address, and a connection to it fails with "network is unreachable".
func awaitLocal(addr netip.Addr) {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(localLimit); time.Now().Before(deadline); <-again.C {
		routes, err := netlink.RouteGet(addr.AsSlice())
		if err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
			return
		}
	}
}

// Remove removes an address that Add gave an interface. It is success if the address, or the interface, is already
// gone.
func (Addresses) Remove(iface string, addr netip.Addr) error {
	link, err := netlink.LinkByName(iface)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = netlink.AddrDel(link, &netlink.Addr{IPNet: single(addr)})
	}
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("removing address %s from %s: %w", addr, iface, err)
	}
	return nil
}

func single(addr netip.Addr) *net.IPNet {
	return &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}
}

// Watch calls changed after each change of the addresses, until ctx ends. changed must not block.
func (Addresses) Watch(ctx context.Context, changed func()) error {
	for {
		err := watchAddresses(ctx, changed)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return fmt.Errorf("subscribing to changes of addresses: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second): // a subscription that fails at once must not be renewed in a busy loop
		}
	}
}

// watchAddresses does Watch's work with one subscription, and returns an error when it breaks.
func watchAddresses(ctx context.Context, changed func()) error {
	done := make(chan struct{})
	defer close(done)
	broken := make(chan error, 1)
	updates := make(chan netlink.AddrUpdate, 64)
	err := netlink.AddrSubscribeWithOptions(updates, done, netlink.AddrSubscribeOptions{ErrorCallback: func(err error) {
		select {
		case broken <- err:
		default:
		}
	}})
	if err != nil {
		return err
	}

	changed() // for changes before the subscription began
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-broken:
			return err
		case _, open := <-updates:
			if !open {
				return errors.New("the kernel ended the subscription")
			}
			changed()
		}
	}
}

package platform_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
)

// TestNewAddressIsReached: when Add returns, this host reaches the address, so that a connection to it does not fail
// with "network is unreachable". The kernel makes the route of an IPv6 address in the background.
func TestNewAddressIsReached(t *testing.T) {
	host := netspace.New(t, "addr")
	host.Bridge("svc0")
	err := platform.InNetns(host.Path, func() error {
		var late []error
		for i := range 200 {
			addr := netip.MustParseAddr(fmt.Sprintf("fd00:96::%x", i+1))
			if err := (platform.Addresses{}).Add("svc0", addr); err != nil {
				return err
			}
			routes, err := netlink.RouteGet(addr.AsSlice())
			if err != nil || routes[0].Type != unix.RTN_LOCAL {
				late = append(late, fmt.Errorf("%s: %v, %v", addr, routes, err))
			}
		}
		return errors.Join(late...)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSetAddressTwice: giving an interface what it has is no change that the kernel reports. Reports about IPv6 come
// late, those about IPv4 in order.
func TestSetAddressTwice(t *testing.T) {
	host := netspace.New(t, "twice")
	host.Bridge("br0")
	first, other := netip.MustParsePrefix("10.1.0.1/24"), netip.MustParsePrefix("10.1.0.2/24")
	set := func(p netip.Prefix) { host.Do(func() error { return platform.SetAddress("br0", p) }) }
	set(first)
	updates, done := make(chan netlink.AddrUpdate, 8), make(chan struct{})
	defer close(done)
	host.Do(func() error { return netlink.AddrSubscribe(updates, done) })
	set(first)
	set(other)
	if u := <-updates; !u.LinkAddress.IP.Equal(other.Addr().AsSlice()) {
		t.Errorf("%s again: the kernel reports %+v", first, u)
	}
}

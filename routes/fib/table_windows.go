package fib

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/table"
)

// Table is the route table of the host's compartment, through the IP helper API.
type Table struct {
	self netip.Addr
	pods []netip.Prefix
}

// New returns this host's route table: routes inside the ranges pods, through the interface that has the address self.
// The range 0.0.0.0/0 must not be among them: the host's own default route has that interface and may have a metric of
// zero.
func New(self netip.Addr, pods ...netip.Prefix) (*Table, error) {
	return &Table{self: self, pods: pods}, nil
}

// uplink returns the interface that has the node's address, and what it reaches directly. It is looked up each time,
// because HNS moves the address to another interface when a network is created.
func (t *Table) uplink() (winipcfg.LUID, []netip.Prefix, error) {
	adapters, err := winipcfg.GetAdaptersAddresses(windows.AF_UNSPEC, winipcfg.GAAFlagDefault)
	if err != nil {
		return 0, nil, fmt.Errorf("listing adapters: %w", err)
	}
	for _, a := range adapters {
		var onLink []netip.Prefix
		found := false
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			addr, ok := netip.AddrFromSlice(u.Address.IP())
			if !ok {
				continue
			}
			addr = addr.Unmap()
			onLink = append(onLink, netip.PrefixFrom(addr, int(u.OnLinkPrefixLength)).Masked())
			found = found || addr == t.self
		}
		if found {
			return a.LUID, onLink, nil
		}
	}
	return 0, nil, fmt.Errorf("no adapter of this host has the node's address %s", t.self)
}

// Segments returns what the adapters of this host reach without a router.
func (t *Table) Segments() ([]netip.Prefix, error) {
	adapters, err := winipcfg.GetAdaptersAddresses(windows.AF_UNSPEC, winipcfg.GAAFlagDefault)
	if err != nil {
		return nil, fmt.Errorf("listing adapters: %w", err)
	}
	var segments []netip.Prefix
	for _, a := range adapters {
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if addr, ok := netip.AddrFromSlice(u.Address.IP()); ok {
				segments = append(segments, netip.PrefixFrom(addr.Unmap(), int(u.OnLinkPrefixLength)).Masked())
			}
		}
	}
	return segments, nil
}

// List returns the routes inside the range of the pods. Windows does not keep who made a route, so ours are known by
// their interface and their metric of zero. One without a next hop, to a segment, is somebody else's and has the zero
// address.
func (t *Table) List() ([]table.Route, []netip.Prefix, error) {
	luid, onLink, err := t.uplink()
	if err != nil {
		return nil, nil, err
	}
	rows, err := winipcfg.GetIPForwardTable2(windows.AF_UNSPEC)
	if err != nil {
		return nil, nil, fmt.Errorf("listing routes: %w", err)
	}

	var routes []table.Route
	for i := range rows {
		dst := rows[i].DestinationPrefix.Prefix()
		hop := rows[i].NextHop.Addr()
		inside := func(pods netip.Prefix) bool { return pods.Overlaps(dst) && dst.Bits() >= pods.Bits() }
		if !dst.IsValid() || !hop.IsValid() || !slices.ContainsFunc(t.pods, inside) {
			continue
		}
		if hop.IsUnspecified() {
			hop = netip.Addr{}
		}
		ours := hop.IsValid() && rows[i].InterfaceLUID == luid && rows[i].Metric == 0
		routes = append(routes, table.Route{Dst: dst.Masked(), NextHop: hop, Ours: ours})
	}
	return routes, onLink, nil
}

// Add puts a route beside others to the same destination: Windows keeps routes through several next hops. The plan
// deletes the wrong one afterwards.
func (t *Table) Add(dst netip.Prefix, nextHop netip.Addr) error {
	luid, _, err := t.uplink()
	if err != nil {
		return err
	}
	if err := luid.AddRoute(dst, nextHop, 0); err != nil && !errors.Is(err, windows.ERROR_OBJECT_ALREADY_EXISTS) {
		return err
	}
	return nil
}

// Set makes the routes to dst go through exactly these next hops, at least one: it adds those that are missing, then
// deletes ours that are not among them.
func (t *Table) Set(dst netip.Prefix, nextHops []netip.Addr) error {
	for _, hop := range nextHops {
		if err := t.Add(dst, hop); err != nil {
			return fmt.Errorf("through %s: %w", hop, err)
		}
	}
	return t.deleteBut(dst, nextHops)
}

// Remove removes all our routes to dst.
func (t *Table) Remove(dst netip.Prefix) error { return t.deleteBut(dst, nil) }

func (t *Table) deleteBut(dst netip.Prefix, keep []netip.Addr) error {
	routes, _, err := t.List()
	if err != nil {
		return err
	}
	for _, r := range routes {
		if r.Ours && r.Dst == dst && !slices.Contains(keep, r.NextHop) {
			err = errors.Join(err, t.Delete(dst, r.NextHop))
		}
	}
	return err
}

// Delete removes the route through one next hop. One that is gone is success.
func (t *Table) Delete(dst netip.Prefix, nextHop netip.Addr) error {
	luid, _, err := t.uplink()
	if err != nil {
		return err
	}
	if err := luid.DeleteRoute(dst, nextHop); err != nil && !errors.Is(err, windows.ERROR_NOT_FOUND) {
		return err
	}
	return nil
}

// Watch calls changed after each change of routes or addresses, until ctx ends or an error.
func (t *Table) Watch(ctx context.Context, changed func()) error {
	return platform.WatchIP(ctx, changed, platform.RouteChange, platform.AddressChange)
}

package hostgw

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/table"
)

// windowsTable is the route table of the host's compartment, through the IP helper API.
type windowsTable struct {
	self netip.Addr
	pods netip.Prefix
}

// NewTable returns this host's route table: routes inside the range pods, through the interface that has the address self.
func NewTable(self netip.Addr, pods netip.Prefix) (hostTable, error) {
	return &windowsTable{self: self, pods: pods.Masked()}, nil
}

// uplink returns the interface that has the node's address, and what it reaches directly. It is looked up each time, because
// HNS moves the address to another interface when a network is created.
func (t *windowsTable) uplink() (winipcfg.LUID, []netip.Prefix, error) {
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

// List returns the routes inside the range of the pods that have a next hop. Windows does not keep who made a route, so ours are
// known by their interface and their metric of zero.
func (t *windowsTable) List() ([]table.Route, []netip.Prefix, error) {
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
		dst, hop := rows[i].DestinationPrefix.Prefix(), rows[i].NextHop.Addr()
		if !dst.IsValid() || !hop.IsValid() || hop.IsUnspecified() || !t.pods.Overlaps(dst) || dst.Bits() < t.pods.Bits() {
			continue
		}
		ours := rows[i].InterfaceLUID == luid && rows[i].Metric == 0
		routes = append(routes, table.Route{Dst: dst.Masked(), NextHop: hop, Ours: ours})
	}
	return routes, onLink, nil
}

// Add puts a route beside others to the same destination: Windows keeps routes through several next hops. The plan deletes the
// wrong one afterwards.
func (t *windowsTable) Add(dst netip.Prefix, nextHop netip.Addr) error {
	luid, _, err := t.uplink()
	if err != nil {
		return err
	}
	if err := luid.AddRoute(dst, nextHop, 0); err != nil && !errors.Is(err, windows.ERROR_OBJECT_ALREADY_EXISTS) {
		return err
	}
	return nil
}

func (t *windowsTable) Delete(dst netip.Prefix, nextHop netip.Addr) error {
	luid, _, err := t.uplink()
	if err != nil {
		return err
	}
	if err := luid.DeleteRoute(dst, nextHop); err != nil && !errors.Is(err, windows.ERROR_NOT_FOUND) {
		return err
	}
	return nil
}

func (t *windowsTable) Watch(ctx context.Context, changed func()) error {
	return platform.WatchIP(ctx, changed, platform.RouteChange, platform.AddressChange)
}

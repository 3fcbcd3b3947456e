package hostroutes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"

	"porthole.dev/porthole/internal/platform"
)

// windowsHost is the IP stack of the host's compartment, through the IP helper API.
type windowsHost struct{}

// NewHost returns the IP stack of this host.
func NewHost() host { return windowsHost{} }

// List implements host.
func (windowsHost) List() ([]Adapter, error) {
	all, err := addresses()
	if err != nil {
		return nil, err
	}
	rows, err := winipcfg.GetIPForwardTable2(windows.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("listing the routes of this host: %w", err)
	}

	var list []Adapter
	for _, a := range all {
		adapter := Adapter{Name: a.FriendlyName(), Addrs: prefixesOf(a)}
		if len(adapter.Addrs) == 0 || a.IfType == winipcfg.IfTypeSoftwareLoopback {
			continue
		}
		for i := range rows {
			dst := rows[i].DestinationPrefix.Prefix()
			hop := rows[i].NextHop.Addr()
			if rows[i].InterfaceLUID == a.LUID && dst.IsValid() && hop.IsValid() {
				adapter.Routes = append(adapter.Routes, Route{Dst: dst.Masked(), NextHop: hop, Metric: rows[i].Metric})
			}
		}
		list = append(list, adapter)
	}
	return list, nil
}

func addresses() ([]*winipcfg.IPAdapterAddresses, error) {
	all, err := winipcfg.GetAdaptersAddresses(windows.AF_UNSPEC,
		winipcfg.GAAFlagSkipAnycast|winipcfg.GAAFlagSkipMulticast|winipcfg.GAAFlagSkipDNSServer)
	if err != nil {
		return nil, fmt.Errorf("listing the adapters of this host: %w", err)
	}
	return all, nil
}

func prefixesOf(a *winipcfg.IPAdapterAddresses) (list []netip.Prefix) {
	for u := a.FirstUnicastAddress; u != nil; u = u.Next {
		if addr, ok := netip.AddrFromSlice(u.Address.IP()); ok && !addr.IsLinkLocalUnicast() {
			list = append(list, netip.PrefixFrom(addr.Unmap(), int(u.OnLinkPrefixLength)))
		}
	}
	return list
}

// Add implements host.
func (windowsHost) Add(addr netip.Addr, r Route) error {
	all, err := addresses()
	if err != nil {
		return err
	}
	for _, a := range all {
		if !(Adapter{Addrs: prefixesOf(a)}).has(addr) {
			continue
		}
		if err := a.LUID.AddRoute(r.Dst, r.NextHop, r.Metric); err != nil &&
			!errors.Is(err, windows.ERROR_OBJECT_ALREADY_EXISTS) {
			return err
		}
		return nil
	}
	return fmt.Errorf("no adapter has %s", addr)
}

func (windowsHost) Watch(ctx context.Context, changed func()) error {
	return platform.WatchIP(ctx, changed, platform.AddressChange, platform.RouteChange)
}

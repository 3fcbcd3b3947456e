package adapters

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"

	"porthole.dev/porthole/internal/platform"
)

// windowsHost is the adapters of the host's compartment, through the IP helper API.
type windowsHost struct {
	families []winipcfg.AddressFamily
}

// NewHost returns the adapters of this host, with dual those of IPv6 beside those of IPv4.
func NewHost(dual bool) host {
	h := windowsHost{families: []winipcfg.AddressFamily{windows.AF_INET}}
	if dual {
		h.families = append(h.families, windows.AF_INET6)
	}
	return h
}

// List implements host. It leaves out an adapter that vanishes while it is read.
func (h windowsHost) List() ([]Adapter, error) {
	var list []Adapter
	for _, family := range h.families {
		some, err := listFamily(family)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

func listFamily(family winipcfg.AddressFamily) ([]Adapter, error) {
	all, err := winipcfg.GetAdaptersAddresses(family,
		winipcfg.GAAFlagSkipAnycast|winipcfg.GAAFlagSkipMulticast|winipcfg.GAAFlagSkipDNSServer)
	if err != nil {
		return nil, fmt.Errorf("listing the adapters of this host: %w", err)
	}
	rows, err := winipcfg.GetIPForwardTable2(family)
	if err != nil {
		return nil, fmt.Errorf("listing the routes of this host: %w", err)
	}

	var list []Adapter
	for _, a := range all {
		adapter := Adapter{ID: uint64(a.LUID), Name: a.FriendlyName(), Six: family == windows.AF_INET6}
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if addr, ok := netip.AddrFromSlice(u.Address.IP()); ok {
				adapter.Addrs = append(adapter.Addrs, addr.Unmap())
			}
		}
		if len(adapter.Addrs) == 0 {
			continue
		}

		settings, err := a.LUID.IPInterface(family)
		if errors.Is(err, windows.ERROR_NOT_FOUND) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the settings of adapter %s: %w", adapter.Name, err)
		}
		adapter.Forwarding = settings.ForwardingEnabled
		for i := range rows {
			hop := rows[i].NextHop.Addr()
			if rows[i].InterfaceLUID == a.LUID && rows[i].DestinationPrefix.PrefixLength == 0 && !hop.IsUnspecified() {
				adapter.Defaults = append(adapter.Defaults, hop)
			}
		}
		list = append(list, adapter)
	}
	return list, nil
}

// EnableForwarding implements host. It changes no other setting. Set of winipcfg clears SitePrefixLength, which
// Windows returns but does not accept.
func (windowsHost) EnableForwarding(a Adapter) error {
	family := winipcfg.AddressFamily(windows.AF_INET)
	if a.Six {
		family = windows.AF_INET6
	}
	settings, err := winipcfg.LUID(a.ID).IPInterface(family)
	if err != nil {
		return fmt.Errorf("reading its settings: %w", err)
	}
	settings.ForwardingEnabled = true
	return settings.Set()
}

func (windowsHost) DeleteDefault(a Adapter, nextHop netip.Addr) error {
	err := winipcfg.LUID(a.ID).DeleteRoute(defaultOf(nextHop), nextHop)
	if errors.Is(err, windows.ERROR_NOT_FOUND) {
		return nil
	}
	return err
}

func defaultOf(hop netip.Addr) netip.Prefix {
	if hop.Is6() {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

func (windowsHost) Watch(ctx context.Context, changed func()) error {
	return platform.WatchIP(ctx, changed, platform.AdapterChange, platform.AddressChange, platform.RouteChange)
}

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
type windowsHost struct{}

// NewHost returns the adapters of this host.
func NewHost() host { return windowsHost{} }

// List implements host. It leaves out an adapter that vanishes while it is read.
func (windowsHost) List() ([]Adapter, error) {
	all, err := winipcfg.GetAdaptersAddresses(windows.AF_INET, winipcfg.GAAFlagSkipAnycast|winipcfg.GAAFlagSkipMulticast|winipcfg.GAAFlagSkipDNSServer)
	if err != nil {
		return nil, fmt.Errorf("listing the adapters of this host: %w", err)
	}
	rows, err := winipcfg.GetIPForwardTable2(windows.AF_INET)
	if err != nil {
		return nil, fmt.Errorf("listing the routes of this host: %w", err)
	}

	var list []Adapter
	for _, a := range all {
		adapter := Adapter{ID: uint64(a.LUID), Name: a.FriendlyName()}
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if addr, ok := netip.AddrFromSlice(u.Address.IP()); ok {
				adapter.Addrs = append(adapter.Addrs, addr.Unmap())
			}
		}
		if len(adapter.Addrs) == 0 {
			continue
		}

		settings, err := a.LUID.IPInterface(windows.AF_INET)
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

// EnableForwarding implements host. It changes no other setting. Set of winipcfg clears SitePrefixLength, which Windows returns but
// does not accept.
func (windowsHost) EnableForwarding(a Adapter) error {
	settings, err := winipcfg.LUID(a.ID).IPInterface(windows.AF_INET)
	if err != nil {
		return fmt.Errorf("reading its settings: %w", err)
	}
	settings.ForwardingEnabled = true
	return settings.Set()
}

func (windowsHost) DeleteDefault(a Adapter, nextHop netip.Addr) error {
	err := winipcfg.LUID(a.ID).DeleteRoute(netip.PrefixFrom(netip.IPv4Unspecified(), 0), nextHop)
	if errors.Is(err, windows.ERROR_NOT_FOUND) {
		return nil
	}
	return err
}

func (windowsHost) Watch(ctx context.Context, changed func()) error {
	return platform.WatchIP(ctx, changed, platform.AdapterChange, platform.AddressChange, platform.RouteChange)
}

package platform

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"
)

func adapters(flags winipcfg.GAAFlags) ([]*winipcfg.IPAdapterAddresses, error) {
	list, err := winipcfg.GetAdaptersAddresses(windows.AF_UNSPEC, flags)
	if err != nil {
		return nil, fmt.Errorf("listing adapters: %w", err)
	}
	return list, nil
}

// List gives the names of all interfaces and all addresses.
func (Addresses) List() (interfaces []string, addrs []HostAddress, err error) {
	list, err := adapters(winipcfg.GAAFlagDefault)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range list {
		interfaces = append(interfaces, a.FriendlyName())
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if addr, ok := netip.AddrFromSlice(u.Address.IP()); ok {
				addrs = append(addrs, HostAddress{Interface: a.FriendlyName(), Addr: addr.Unmap(), Bits: int(u.OnLinkPrefixLength)})
			}
		}
	}
	return interfaces, addrs, nil
}

// luid finds an interface by its name; names differ in more than case. 0: there is none.
func luid(iface string) (winipcfg.LUID, error) {
	list, err := adapters(winipcfg.GAAFlagSkipUnicast | winipcfg.GAAFlagSkipAnycast | winipcfg.GAAFlagSkipMulticast | winipcfg.GAAFlagSkipDNSServer)
	if err != nil {
		return 0, err
	}
	for _, a := range list {
		if strings.EqualFold(a.FriendlyName(), iface) {
			return a.LUID, nil
		}
	}
	return 0, nil
}

// Add puts an address on an interface, for that one address alone and never as the source of what this host sends by
// itself. One that is there already is success.
func (Addresses) Add(iface string, addr netip.Addr) error {
	id, err := luid(iface)
	if err == nil && id == 0 {
		err = errors.New("there is no such interface")
	}
	if err != nil {
		return fmt.Errorf("adding address %s to %s: %w", addr, iface, err)
	}
	row := &winipcfg.MibUnicastIPAddressRow{}
	row.Init()
	row.InterfaceLUID = id
	row.DadState = winipcfg.DadStatePreferred // no search for doubles: it is usable at once
	row.ValidLifetime, row.PreferredLifetime = 0xffffffff, 0xffffffff
	row.OnLinkPrefixLength = uint8(addr.BitLen())
	row.SkipAsSource = true
	if err := row.Address.SetAddr(addr); err != nil {
		return fmt.Errorf("adding address %s to %s: %w", addr, iface, err)
	}
	if err := row.Create(); err != nil && !errors.Is(err, windows.ERROR_OBJECT_ALREADY_EXISTS) {
		return fmt.Errorf("adding address %s to %s: %w", addr, iface, err)
	}
	return nil
}

// Remove takes an address that Add put there off the interface. One that is gone is success, also with its interface.
func (Addresses) Remove(iface string, addr netip.Addr) error {
	id, err := luid(iface)
	if err != nil {
		return fmt.Errorf("removing address %s from %s: %w", addr, iface, err)
	}
	if id == 0 {
		return nil
	}
	row := &winipcfg.MibUnicastIPAddressRow{InterfaceLUID: id}
	if err := row.Address.SetAddr(addr); err != nil {
		return fmt.Errorf("removing address %s from %s: %w", addr, iface, err)
	}
	if err := row.Delete(); err != nil && !errors.Is(err, windows.ERROR_NOT_FOUND) {
		return fmt.Errorf("removing address %s from %s: %w", addr, iface, err)
	}
	return nil
}

// Watch calls changed, which must not block, after each change of the addresses until ctx ends.
func (Addresses) Watch(ctx context.Context, changed func()) error {
	w, err := winipcfg.RegisterUnicastAddressChangeCallback(func(winipcfg.MibNotificationType, *winipcfg.MibUnicastIPAddressRow) { changed() })
	if err != nil {
		return fmt.Errorf("subscribing to changes of addresses: %w", err)
	}
	defer w.Unregister()
	changed() // what happened before the subscription stood
	<-ctx.Done()
	return nil
}

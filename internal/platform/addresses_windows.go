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

// List returns the names of all interfaces, and all unicast addresses of this host.
func (Addresses) List() (interfaces []string, addrs []HostAddress, err error) {
	list, err := adapters(winipcfg.GAAFlagDefault)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range list {
		interfaces = append(interfaces, a.FriendlyName())
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if addr, ok := netip.AddrFromSlice(u.Address.IP()); ok {
				addrs = append(addrs, HostAddress{Interface: a.FriendlyName(), Addr: addr.Unmap(),
					Bits: int(u.OnLinkPrefixLength)})
			}
		}
	}
	return interfaces, addrs, nil
}

// luid finds an interface by its name, regardless of case. It returns 0 if there is no such interface.
func luid(iface string) (winipcfg.LUID, error) {
	list,
		err := adapters(
		winipcfg.GAAFlagSkipUnicast | winipcfg.GAAFlagSkipAnycast | winipcfg.GAAFlagSkipMulticast |
			winipcfg.GAAFlagSkipDNSServer)
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

// Add gives an interface an address, with a prefix that covers this address only. The host does not use it as the
// source of its own connections. An address that is already there is success.
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
	row.DadState = winipcfg.DadStatePreferred // usable at once, without duplicate address detection
	row.ValidLifetime = 0xffffffff
	row.PreferredLifetime = 0xffffffff
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

// Remove removes an address that Add gave an interface. It is success if the address, or the interface, is already
// gone.
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

// Watch calls changed after each change of the addresses, until ctx ends. changed must not block.
func (Addresses) Watch(ctx context.Context, changed func()) error {
	w, err := winipcfg.RegisterUnicastAddressChangeCallback(func(winipcfg.MibNotificationType,
		*winipcfg.MibUnicastIPAddressRow) {
		changed()
	})
	if err != nil {
		return fmt.Errorf("subscribing to changes of addresses: %w", err)
	}
	defer w.Unregister()
	changed() // for changes before the subscription began
	<-ctx.Done()
	return nil
}

package platform

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"
)

// Uplinks returns the unicast addresses of this host that are ready for use. It leaves out those that the host does
// not use for its own connections (SkipAsSource), such as addresses of services.
func Uplinks() ([]Uplink, error) {
	// Routes come first: a route comes after the address that it needs. In the other order, an address that comes
	// between the two calls would be missing beside its default route, and one with a worse route would be the best.
	routes, err := winipcfg.GetIPForwardTable2(windows.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	addresses, err := winipcfg.GetUnicastIPAddressTable(windows.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	list,
		err := adapters(
		winipcfg.GAAFlagSkipUnicast | winipcfg.GAAFlagSkipAnycast | winipcfg.GAAFlagSkipMulticast |
			winipcfg.GAAFlagSkipDNSServer)
	if err != nil {
		return nil, err
	}
	links, err := winipcfg.GetIfTable2Ex(winipcfg.MibIfEntryNormal)
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}

	byLUID := map[winipcfg.LUID]*winipcfg.IPAdapterAddresses{}
	names := map[string]bool{}
	for _, a := range list {
		byLUID[a.LUID] = a
	}
	for i := range links { // including cards that belong to a virtual switch and have no addresses
		names[links[i].Alias()] = true
	}

	var out []Uplink
	for i := range addresses {
		row := &addresses[i]
		a, known := byLUID[row.InterfaceLUID]
		if !known || a.OperStatus != winipcfg.IfOperStatusUp || row.SkipAsSource ||
			row.DadState == winipcfg.DadStateTentative || row.DadState == winipcfg.DadStateDuplicate {
			continue
		}
		addr := row.Address.Addr().Unmap().WithZone("")
		u := Uplink{HostAddress: HostAddress{Interface: a.FriendlyName(), Addr: addr,
			Bits: int(row.OnLinkPrefixLength)}}
		u.Metric, u.Default = defaultMetric(routes, a, addr)
		if card, virtual := strings.CutPrefix(u.Interface, "vEthernet ("); virtual {
			u.Endpoint = !names[strings.TrimSuffix(card, ")")]
		}
		out = append(out, u)
	}
	return out, nil
}

// defaultMetric returns the smallest metric of the default routes through an adapter, of the family of addr. It
// returns false if there is no such route.
func defaultMetric(routes []winipcfg.MibIPforwardRow2, a *winipcfg.IPAdapterAddresses, addr netip.Addr) (metric uint32,
	found bool) {
	own := a.Ipv4Metric
	if addr.Is6() {
		own = a.Ipv6Metric
	}
	for i := range routes {
		r := &routes[i]
		if r.InterfaceLUID != a.LUID || r.DestinationPrefix.PrefixLength != 0 || r.NextHop.Addr().Is6() != addr.Is6() {
			continue
		}
		if m := r.Metric + own; !found || m < metric {
			metric, found = m, true
		}
	}
	return metric, found
}

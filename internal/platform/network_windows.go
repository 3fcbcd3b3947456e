package platform

import (
	"fmt"
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"
)

// ReadNetwork reads the IP stack of the host's compartment.
func ReadNetwork() (s NetworkState, err error) {
	list, err := adapters(winipcfg.GAAFlagSkipAnycast | winipcfg.GAAFlagSkipMulticast | winipcfg.GAAFlagSkipDNSServer)
	if err != nil {
		return s, err
	}
	names := map[winipcfg.LUID]string{}
	for _, a := range list {
		names[a.LUID] = a.FriendlyName()
		i := NetworkInterface{Name: a.FriendlyName(), MAC: net.HardwareAddr(a.PhysicalAddress()).String(),
			MTU: int(a.MTU), Up: a.OperStatus == winipcfg.IfOperStatusUp}
		if settings, err := a.LUID.IPInterface(windows.AF_INET); err == nil {
			i.Forwarding = settings.ForwardingEnabled
		}
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if addr, ok := netip.AddrFromSlice(u.Address.IP()); ok && !addr.Unmap().IsLinkLocalUnicast() {
				i.Addresses = append(i.Addresses, netip.PrefixFrom(addr.Unmap(), int(u.OnLinkPrefixLength)))
			}
		}
		s.Interfaces = append(s.Interfaces, i)
	}

	rows, err := winipcfg.GetIPForwardTable2(windows.AF_UNSPEC)
	if err != nil {
		return s, fmt.Errorf("listing routes: %w", err)
	}
	for i := range rows {
		r := &rows[i]
		n := NetworkRoute{Destination: r.DestinationPrefix.Prefix(), Interface: names[r.InterfaceLUID],
			Metric: r.Metric}
		if !n.Destination.IsValid() || n.Destination.Addr().IsLinkLocalUnicast() || n.Destination.Addr().IsMulticast() {
			continue
		}
		if hop := r.NextHop.Addr(); hop.IsValid() && !hop.IsUnspecified() {
			n.NextHop = hop.Unmap()
		}
		s.Routes = append(s.Routes, n)
	}
	s.Neighbours, s.NeighboursError = readNeighbours(names)
	return s, nil
}

var procGetIPNetTable2 = windows.NewLazySystemDLL("iphlpapi.dll").NewProc("GetIpNetTable2")
var procFreeMibTable = windows.NewLazySystemDLL("iphlpapi.dll").NewProc("FreeMibTable")

// netRow is MIB_IPNET_ROW2 (netioapi.h).
type netRow struct {
	Address         winipcfg.RawSockaddrInet
	InterfaceIndex  uint32
	InterfaceLUID   winipcfg.LUID
	PhysicalAddress [32]byte
	Length          uint32
	State           uint32 // NL_NEIGHBOR_STATE
	Flags           uint32
	Reachable       uint32
}

// netTable is MIB_IPNET_TABLE2; Rows has Count entries.
type netTable struct {
	Count uint32
	_     uint32
	Rows  [1]netRow
}

// States of NL_NEIGHBOR_STATE.
const (
	unreachable = 0
	incomplete  = 1
	permanent   = 6
)

func readNeighbours(names map[winipcfg.LUID]string) ([]NetworkNeighbour, error) {
	var table *netTable
	code, _, _ := procGetIPNetTable2.Call(windows.AF_UNSPEC, uintptr(unsafe.Pointer(&table)))
	if code == uintptr(windows.ERROR_NOT_FOUND) {
		return nil, nil
	}
	if code != 0 {
		return nil, fmt.Errorf("listing neighbours: %w", windows.Errno(code))
	}
	defer procFreeMibTable.Call(uintptr(unsafe.Pointer(table)))

	var out []NetworkNeighbour
	for _, row := range unsafe.Slice(&table.Rows[0], table.Count) {
		addr := row.Address.Addr().Unmap()
		if !addr.IsValid() || addr.IsMulticast() {
			continue
		}
		mac := net.HardwareAddr(row.PhysicalAddress[:min(row.Length, 32)]).String()
		out = append(out, NetworkNeighbour{Address: addr, MAC: mac, Interface: names[row.InterfaceLUID],
			Failed:    row.State == unreachable && mac == "" || row.State == incomplete,
			Permanent: row.State == permanent})
	}
	return out, nil
}

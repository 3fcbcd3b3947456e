package platform

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ReadNetwork reads the network namespace of the calling thread; see InNetns. It leaves out loopback, multicast and
// the local table.
func ReadNetwork() (s NetworkState, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return s, fmt.Errorf("listing interfaces: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		a := l.Attrs()
		names[a.Index] = a.Name
		i := NetworkInterface{Name: a.Name, MAC: a.HardwareAddr.String(), Up: a.Flags&unix.IFF_UP != 0, MTU: a.MTU,
			Forwarding: forwards(a.Name)}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return s, fmt.Errorf("listing addresses of %s: %w", a.Name, err)
		}
		for _, addr := range addrs {
			if p, ok := prefixOf(addr.IPNet.IP, addr.IPNet.Mask); ok && !p.Addr().IsLinkLocalUnicast() {
				i.Addresses = append(i.Addresses, p)
			}
		}
		if v, is := l.(*netlink.Vxlan); is {
			i.VNI = uint32(v.VxlanId)
			i.VXLANPort = uint16(v.Port)
			if local, ok := netip.AddrFromSlice(v.SrcAddr); ok {
				i.VXLANLocal = local.Unmap()
			}
			forwards, err := readForwards(a.Index, a.Name)
			if err != nil {
				return s, err
			}
			s.Forwards = append(s.Forwards, forwards...)
		}
		s.Interfaces = append(s.Interfaces, i)
	}

	if s.Routes, err = readRoutes(names); err != nil {
		return s, err
	}
	s.Neighbours, s.NeighboursError = readNeighbours(names)
	return s, nil
}

// readForwards reads the forwarding database of a VXLAN device.
func readForwards(index int, name string) (out []NetworkForward, err error) {
	list, err := netlink.NeighList(index, unix.AF_BRIDGE)
	if err != nil {
		return nil, fmt.Errorf("listing forwarding entries of %s: %w", name, err)
	}
	for _, e := range list {
		if to, ok := netip.AddrFromSlice(e.IP); ok {
			out = append(out, NetworkForward{MAC: e.HardwareAddr.String(), To: to.Unmap(), Interface: name})
		}
	}
	return out, nil
}

// forwards reads the setting of an interface from /proc/sys, which shows that of the calling thread's network
// namespace.
func forwards(name string) bool {
	data, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv4/conf", name, "forwarding"))
	return err == nil && strings.TrimSpace(string(data)) == "1"
}

func prefixOf(ip []byte, mask []byte) (netip.Prefix, bool) {
	addr, ok := netip.AddrFromSlice(ip)
	bits := 0
	for _, b := range mask {
		for ; b != 0; b <<= 1 {
			bits++
		}
	}
	return netip.PrefixFrom(addr.Unmap(), bits), ok
}

func readRoutes(names map[int]string) ([]NetworkRoute, error) {
	list, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	var out []NetworkRoute
	for _, r := range list {
		n := NetworkRoute{Metric: uint32(r.Priority), Protocol: int(r.Protocol),
			Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
		if r.Family == netlink.FAMILY_V6 {
			n.Destination = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		if r.Dst != nil {
			n.Destination, _ = prefixOf(r.Dst.IP, r.Dst.Mask)
		}
		if n.Destination.Addr().IsLinkLocalUnicast() || n.Destination.Addr().IsMulticast() {
			continue
		}

		hops := []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw}}
		if len(r.MultiPath) > 0 {
			hops = r.MultiPath
		}
		for _, h := range hops {
			one := n
			one.Interface = names[h.LinkIndex]
			if hop, ok := netip.AddrFromSlice(h.Gw); ok {
				one.NextHop = hop.Unmap()
			}
			out = append(out, one)
		}
	}
	return out, nil
}

func readNeighbours(names map[int]string) ([]NetworkNeighbour, error) {
	list, err := netlink.NeighList(0, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("listing neighbours: %w", err)
	}
	var out []NetworkNeighbour
	for _, e := range list {
		addr, ok := netip.AddrFromSlice(e.IP)
		if !ok || e.State&netlink.NUD_NOARP != 0 {
			continue
		}
		out = append(out, NetworkNeighbour{Address: addr.Unmap(), MAC: e.HardwareAddr.String(),
			Interface: names[e.LinkIndex],
			Failed:    e.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) != 0 && len(e.HardwareAddr) == 0,
			Permanent: e.State&netlink.NUD_PERMANENT != 0})
	}
	return out, nil
}

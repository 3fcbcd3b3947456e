package vxlan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/routes/fib"
)

// Observe reads the device, its entries, and the routes to pods.
func (m *Mode) Observe(context.Context) (seen Kernel, err error) {
	if seen.Uplink, err = m.uplink(); err != nil {
		return seen, err
	}
	if seen.Device, err = m.device(); err != nil {
		return seen, err
	}
	m.mtu.Store(int64(seen.Uplink.MTU))
	m.index.Store(int64(seen.Device.Index))
	if seen.Device.Index != 0 {
		if err := m.entries(&seen); err != nil {
			return seen, err
		}
	}
	var nodes []netip.Addr
	for _, f := range seen.Forwards {
		nodes = append(nodes, f.Public)
	}
	seen.PathMTU = m.paths.expect(nodes, seen.Uplink.MTU)
	seen.Routes, err = m.routes(seen.Device.Index)
	return seen, err
}

// uplink returns the interface that has the node's address.
func (m *Mode) uplink() (Uplink, error) {
	addrs, err := m.kernel.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return Uplink{}, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP); !ok || ip.Unmap() != m.o.Addr {
			continue
		}
		link, err := m.kernel.LinkByIndex(a.LinkIndex)
		if err != nil {
			return Uplink{}, fmt.Errorf("interface of address %s: %w", m.o.Addr, err)
		}
		return Uplink{Index: link.Attrs().Index, Name: link.Attrs().Name, MTU: link.Attrs().MTU}, nil
	}
	return Uplink{}, fmt.Errorf("no interface of this host has the node's address %s", m.o.Addr)
}

// device returns the device of our name, the zero Device if there is none.
func (m *Mode) device() (Device, error) {
	name := m.o.Config.Device()
	link, err := m.kernel.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return Device{}, nil
	}
	if err != nil {
		return Device{}, fmt.Errorf("device %s: %w", name, err)
	}

	at := link.Attrs()
	d := Device{Index: at.Index, MTU: at.MTU, Up: at.Flags&net.FlagUp != 0, MAC: macOf(at.HardwareAddr)}
	if v, ok := link.(*netlink.Vxlan); ok {
		local, _ := netip.AddrFromSlice(v.SrcAddr)
		d.VXLAN = true
		d.VNI = uint32(v.VxlanId)
		d.Port = uint16(v.Port)
		d.Local = local.Unmap()
		d.Uplink = v.VtepDevIndex
		d.Learning = v.Learning
	}
	addrs, err := m.kernel.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return Device{}, fmt.Errorf("addresses of device %s: %w", name, err)
	}
	for _, a := range addrs {
		ip, _ := netip.AddrFromSlice(a.IP)
		ones, _ := a.Mask.Size()
		d.Addrs = append(d.Addrs, netip.PrefixFrom(ip.Unmap(), ones))
	}
	return d, nil
}

// entries reads the neighbours and forwarding entries of the device.
func (m *Mode) entries(seen *Kernel) error {
	neighbours, err := m.kernel.NeighList(seen.Device.Index, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("listing neighbours: %w", err)
	}
	for _, n := range neighbours {
		addr, ok := netip.AddrFromSlice(n.IP)
		if ok {
			seen.Neighbours = append(seen.Neighbours,
				Neighbour{addr.Unmap(), macOf(n.HardwareAddr), n.State&unix.NUD_PERMANENT != 0})
		}
	}

	forwards, err := m.kernel.NeighList(seen.Device.Index, unix.AF_BRIDGE)
	if err != nil {
		return fmt.Errorf("listing forwarding entries: %w", err)
	}
	for _, f := range forwards {
		addr, ok := netip.AddrFromSlice(f.IP)
		if ok && f.Flags&unix.NTF_SELF != 0 {
			seen.Forwards = append(seen.Forwards,
				Forward{macOf(f.HardwareAddr), addr.Unmap(), f.State&unix.NUD_PERMANENT != 0})
		}
	}
	return nil
}

// routes returns the routes of the main table that are ours, and those of others that lead to pods, because ours must
// not replace them unnoticed.
func (m *Mode) routes(device int) ([]Route, error) {
	listed, err := m.kernel.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	var routes []Route
	for _, r := range listed {
		if r.Dst == nil || r.Gw == nil {
			continue
		}
		ip, _ := netip.AddrFromSlice(r.Dst.IP)
		ones, _ := r.Dst.Mask.Size()
		dst := netip.PrefixFrom(ip.Unmap(), ones).Masked()
		ours := r.Protocol == fib.Protocol
		if inside := m.o.Cluster.Contains(dst.Addr()) && dst.Bits() >= m.o.Cluster.Bits(); !ours && !inside {
			continue
		}
		via, _ := netip.AddrFromSlice(r.Gw)
		routes = append(routes, Route{Dst: dst, Via: via.Unmap(), Ours: ours,
			OnDevice: device != 0 && r.LinkIndex == device, OnLink: r.Flags&int(netlink.FLAG_ONLINK) != 0})
	}
	return routes, nil
}

// change makes one change of the kernel.
func (m *Mode) change(o Op) error {
	if o.Verb == MakeDevice {
		return m.makeDevice(o.Device)
	}
	if o.Verb == DeleteRoute {
		return gone(m.kernel.RouteDel(m.route(0, o.Route)))
	}
	index, err := m.deviceIndex()
	if err != nil {
		return err
	}

	link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
	switch o.Verb {
	case DeleteDevice:
		m.index.Store(0)
		return m.kernel.LinkDel(link)
	case SetMTU:
		return m.kernel.LinkSetMTU(link, o.Device.MTU)
	case SetUp:
		return m.kernel.LinkSetUp(link)
	case AddAddress:
		return m.kernel.AddrReplace(link, &netlink.Addr{IPNet: ipNet(o.Addr)})
	case DeleteAddress:
		return gone(m.kernel.AddrDel(link, &netlink.Addr{IPNet: ipNet(o.Addr)}))
	case SetNeighbour:
		return m.kernel.NeighSet(neighbour(index, o.Neighbour))
	case DeleteNeighbour:
		return gone(m.kernel.NeighDel(neighbour(index, o.Neighbour)))
	case SetForward:
		return m.kernel.NeighSet(forward(index, o.Forward))
	case DeleteForward:
		return gone(m.kernel.NeighDel(forward(index, o.Forward)))
	case SetRoute:
		return m.kernel.RouteReplace(m.route(index, o.Route))
	}
	return errors.ErrUnsupported
}

// deviceIndex returns the index of the device. To ask the kernel before each of thousands of changes would take longer
// than to make them, so that the one counts that was seen last. The kernel gives no index twice: if there is another
// device now, changes fail, and the next pass sees it.
func (m *Mode) deviceIndex() (int, error) {
	if index := m.index.Load(); index != 0 {
		return int(index), nil
	}
	link, err := m.kernel.LinkByName(m.o.Config.Device())
	if err != nil {
		return 0, err
	}
	m.index.Store(int64(link.Attrs().Index))
	return link.Attrs().Index, nil
}

// makeDevice makes the device, down. Its port is the destination of what it sends and where it receives.
func (m *Mode) makeDevice(d Device) error {
	m.index.Store(0)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = m.o.Config.Device()
	attrs.MTU = d.MTU
	attrs.HardwareAddr = d.MAC[:]
	err := m.kernel.LinkAdd(&netlink.Vxlan{LinkAttrs: attrs, VxlanId: int(d.VNI), VtepDevIndex: d.Uplink,
		SrcAddr: d.Local.AsSlice(), Port: int(d.Port)})
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("another VXLAN device of this host has VNI %d, or another program has UDP port %d: %w", d.VNI,
			d.Port, err)
	}
	return err
}

// gone takes "is not there" as success.
func gone(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil
	}
	return err
}

func (m *Mode) route(link int, r Route) *netlink.Route {
	route := &netlink.Route{LinkIndex: link, Dst: ipNet(r.Dst), Gw: r.Via.AsSlice(), Protocol: fib.Protocol}
	if r.OnLink {
		route.Flags = int(netlink.FLAG_ONLINK)
	}
	return route
}

func neighbour(link int, n Neighbour) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: link, Family: unix.AF_INET, State: unix.NUD_PERMANENT, IP: n.Addr.AsSlice(),
		HardwareAddr: n.MAC[:]}
}

func forward(link int, f Forward) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: link, Family: unix.AF_BRIDGE, State: unix.NUD_PERMANENT, Flags: unix.NTF_SELF,
		IP: f.Public.AsSlice(), HardwareAddr: f.MAC[:]}
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func macOf(a net.HardwareAddr) MAC {
	if len(a) != len(MAC{}) {
		return MAC{}
	}
	return MAC(a)
}

// Watch subscribes to routes, links, addresses, neighbours and forwarding entries, and probes the path MTU to other
// nodes meanwhile.
func (m *Mode) Watch(ctx context.Context, changed func()) error {
	ctx, stop := context.WithCancel(ctx)
	var probing sync.WaitGroup
	defer probing.Wait()
	defer stop()
	probing.Go(func() { m.paths.run(ctx, changed) })
	return fib.Watch(ctx, m.netns, m.concerns, changed)
}

// concerns reports whether a neighbour or forwarding entry is one of our device: hosts change others all the time.
func (m *Mode) concerns(n netlink.Neigh) bool { return int64(n.LinkIndex) == m.index.Load() }

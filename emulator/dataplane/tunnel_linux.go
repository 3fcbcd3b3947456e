package dataplane

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

func (t Tunnel) delete(d *DataPlane) error { return d.deleteLink(t.Name) }

func (p Peer) create(d *DataPlane) error {
	entry, err := p.entry(d)
	if err != nil {
		return err
	}
	return d.handle.NeighSet(entry)
}

func (p Peer) delete(d *DataPlane) error {
	entry, err := p.entry(d)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return unlessGone(d.handle.NeighDel(entry))
}

// entry says that frames to the peer's MAC go to its provider address.
func (p Peer) entry(d *DataPlane) (*netlink.Neigh, error) {
	link, err := d.handle.LinkByName(p.Tunnel)
	if err != nil {
		return nil, err
	}
	mac, err := net.ParseMAC(p.MAC)
	if err != nil {
		return nil, err
	}
	return &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF,
		IP: p.Provider.AsSlice(), HardwareAddr: mac}, nil
}

func (p Path) create(d *DataPlane) error {
	neigh, route, err := p.entries(d)
	if err != nil {
		return err
	}
	if err := d.handle.NeighSet(neigh); err != nil {
		return fmt.Errorf("neighbour %s: %w", p.gateway(), err)
	}
	return d.handle.RouteReplace(route)
}

func (p Path) delete(d *DataPlane) error {
	neigh, route, err := p.entries(d)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(unlessGone(d.handle.RouteDel(route)), unlessGone(d.handle.NeighDel(neigh)))
}

// entries are the two that make a path: the route to the prefix, and the MAC of its gateway.
func (p Path) entries(d *DataPlane) (*netlink.Neigh, *netlink.Route, error) {
	link, err := d.handle.LinkByName(p.Tunnel)
	if err != nil {
		return nil, nil, err
	}
	mac, err := net.ParseMAC(p.MAC)
	if err != nil {
		return nil, nil, err
	}

	index := link.Attrs().Index
	neigh := &netlink.Neigh{LinkIndex: index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: p.gateway().AsSlice(), HardwareAddr: mac}
	route := &netlink.Route{LinkIndex: index, Dst: netlinkAddr(p.Prefix).IPNet}
	if p.Prefix.IsSingleIP() {
		route.Scope = netlink.SCOPE_LINK
	} else {
		route.Gw, route.Flags = p.gateway().AsSlice(), int(netlink.FLAG_ONLINK)
	}
	return neigh, route, nil
}

func unlessGone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// create makes the VXLAN device and brings it up. It learns no addresses: HNS says which node has which. After a failure no
// device is left.
func (t Tunnel) create(d *DataPlane) error {
	mac, err := net.ParseMAC(t.MAC)
	if err != nil {
		return err
	}
	v := &netlink.Vxlan{LinkAttrs: netlink.NewLinkAttrs(), VxlanId: int(t.VNI), SrcAddr: t.Local.AsSlice(), Port: int(t.Port), Learning: false}
	v.Name, v.MTU, v.HardwareAddr = t.Name, t.MTU, mac
	if err := d.handle.LinkAdd(v); err != nil {
		return err
	}
	link, err := d.handle.LinkByName(t.Name)
	if err == nil {
		err = platform.InNetns(d.opts.Netns, func() error { return sysctls(tunnelSettings(t.Name), true) })
	}
	if err == nil {
		err = d.handle.LinkSetUp(link)
	}
	if err != nil {
		return errors.Join(err, d.deleteLink(t.Name))
	}
	return nil
}

func tunnelSettings(name string) map[string]string {
	dir := "net/ipv4/conf/" + name + "/"
	return map[string]string{dir + "send_redirects": "0", dir + "rp_filter": "0", "net/ipv6/conf/" + name + "/disable_ipv6": "1"}
}

// observeTunnel reads a vxlan device of ours, its forwarding entries and the routes through it. want gives the ids.
func (d *DataPlane) observeTunnel(link netlink.Link, want State, have *State) error {
	a := link.Attrs()
	t := Tunnel{ID: want.Tunnels[a.Name].ID, Name: a.Name, MAC: a.HardwareAddr.String(), MTU: a.MTU, Up: a.Flags&net.FlagUp != 0}
	if v, ok := link.(*netlink.Vxlan); ok && !v.Learning {
		t.Local, _ = netip.AddrFromSlice(v.SrcAddr.To4())
		t.VNI, t.Port = uint32(v.VxlanId), uint16(v.Port)
	}
	have.Tunnels[t.Name] = t
	entries, err := d.handle.NeighList(a.Index, unix.AF_BRIDGE)
	if err != nil {
		return fmt.Errorf("listing forwarding entries of %s: %w", a.Name, err)
	}
	for _, e := range entries {
		if provider, ok := netip.AddrFromSlice(e.IP.To4()); ok {
			p := Peer{Tunnel: t.Name, MAC: e.HardwareAddr.String(), Provider: provider}
			p.ID = want.Peers[p.key()].ID
			have.Peers[p.key()] = p
		}
	}

	neighs, err := d.handle.NeighList(a.Index, unix.AF_INET)
	if err != nil {
		return fmt.Errorf("listing neighbours of %s: %w", a.Name, err)
	}
	macs := map[netip.Addr]string{}
	for _, n := range neighs {
		if addr, ok := netip.AddrFromSlice(n.IP.To4()); ok && n.State&netlink.NUD_PERMANENT != 0 {
			macs[addr] = n.HardwareAddr.String()
		}
	}

	routes, err := d.handle.RouteList(link, unix.AF_INET)
	if err != nil {
		return fmt.Errorf("listing routes through %s: %w", a.Name, err)
	}
	for _, r := range routes {
		p := Path{Tunnel: t.Name, Prefix: prefixOf(r.Dst, unix.AF_INET)}
		gw, _ := netip.AddrFromSlice(r.Gw.To4())
		if single := p.Prefix.IsSingleIP(); single && !gw.IsValid() || !single && gw == p.gateway() {
			p.MAC = macs[p.gateway()]
		}
		p.ID = want.Paths[p.key()].ID
		have.Paths[p.key()] = p
	}
	return nil
}

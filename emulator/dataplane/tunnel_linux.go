package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

func (t Tunnel) delete(d *DataPlane) error {
	gone := "add table netdev " + t.Name + "\ndelete table netdev " + t.Name + "\n"
	return errors.Join(d.deleteLink(t.Name), d.nft(context.Background(), strings.NewReader(gone), nil, "-f", "-"))
}

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
	return &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT,
		Flags: netlink.NTF_SELF,
		IP:    p.Provider.AsSlice(), HardwareAddr: mac}, nil
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
	neigh := &netlink.Neigh{LinkIndex: index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT,
		IP: p.gateway().AsSlice(), HardwareAddr: mac}
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

// create makes the VXLAN device and brings it up. It learns no addresses: HNS says which node has which. After a
// failure no device is left.
func (t Tunnel) create(d *DataPlane) error {
	mac, err := net.ParseMAC(t.MAC)
	if err != nil {
		return err
	}
	v := &netlink.Vxlan{LinkAttrs: netlink.NewLinkAttrs(), VxlanId: int(t.VNI), SrcAddr: t.Local.AsSlice(),
		Port: int(t.Port), Learning: false}
	v.Name, v.MTU, v.HardwareAddr = t.Name, t.MTU, mac
	if err := d.handle.LinkAdd(v); err != nil {
		return err
	}
	link, err := d.handle.LinkByName(t.Name)
	if err == nil {
		err = platform.InNetns(d.opts.Netns, func() error { return sysctls(tunnelSettings(t.Name), true) })
	}
	if err == nil {
		err = d.nft(context.Background(), strings.NewReader(arrivalRules(t.Name)), nil, "-f", "-")
	}
	if err == nil {
		err = d.handle.LinkSetUp(link)
	}
	if err != nil {
		return errors.Join(err, t.delete(d))
	}
	return nil
}

// arrivals is the set of a tunnel's table that has the MACs and addresses to which frames are taken in.
const arrivals = "arrivals"

// arrivalRules makes the table of a tunnel, anew if there is one. Its rule runs before the kernel drops what is for
// another MAC than the device's.
func arrivalRules(tunnel string) string {
	table := "table netdev " + tunnel
	return "add " + table + "\ndelete " + table + "\nadd " + table + "\n" +
		"add set netdev " + tunnel + " " + arrivals + " { type ether_addr . ipv4_addr; }\n" +
		"add chain netdev " + tunnel + " in { type filter hook ingress device \"" + tunnel + "\" priority 0; }\n" +
		"add rule netdev " + tunnel + " in ether daddr . ip daddr @" + arrivals + " meta pkttype set host\n"
}

// create can be repeated: an element that is there is no error.
func (a Arrival) create(d *DataPlane) error {
	return a.change(d, func(c *nftables.Conn, set *nftables.Set, e []nftables.SetElement) error {
		return c.SetAddElements(set, e)
	})
}

func (a Arrival) delete(d *DataPlane) error {
	return unlessGone(a.change(d, func(c *nftables.Conn, set *nftables.Set, e []nftables.SetElement) error {
		return c.SetDeleteElements(set, e)
	}))
}

func (a Arrival) change(d *DataPlane, change func(*nftables.Conn, *nftables.Set, []nftables.SetElement) error) error {
	mac, err := net.ParseMAC(a.MAC)
	if err != nil {
		return err
	}
	table := &nftables.Table{Name: a.Tunnel, Family: nftables.TableFamilyNetdev}
	set := &nftables.Set{Name: arrivals, Table: table, Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeEtherAddr, nftables.TypeIPAddr)}
	key := slices.Concat(mac, []byte{0, 0}, a.Addr.AsSlice()) // each part begins at a multiple of four bytes
	return d.stack(func(c *nftables.Conn) error {
		if err := change(c, set, []nftables.SetElement{{Key: key}}); err != nil {
			return err
		}
		return c.Flush()
	})
}

func tunnelSettings(name string) map[string]string {
	dir := "net/ipv4/conf/" + name + "/"
	return map[string]string{dir + "send_redirects": "0", dir + "rp_filter": "0",
		"net/ipv6/conf/" + name + "/disable_ipv6": "1"}
}

// observeTunnel reads a vxlan device of ours, its forwarding entries, the routes through it and its arrivals. want
// gives the ids. A device without the table of arrivals counts as down, so that it is made again.
func (d *DataPlane) observeTunnel(ctx context.Context, link netlink.Link, want State, have *State) error {
	a := link.Attrs()
	rules, err := d.observeRules(ctx, "netdev", a.Name)
	if err != nil {
		return fmt.Errorf("reading the arrivals of %s: %w", a.Name, err)
	}
	t := Tunnel{ID: want.Tunnels[a.Name].ID, Name: a.Name, MAC: a.HardwareAddr.String(), MTU: a.MTU,
		Up: a.Flags&net.FlagUp != 0 && len(rules.Chains["in"].Rules) == 1}
	for element := range rules.Sets[arrivals].Elems {
		mac, text, _ := strings.Cut(element, " . ")
		if addr, err := netip.ParseAddr(text); err == nil {
			x := Arrival{Tunnel: t.Name, MAC: mac, Addr: addr}
			x.ID = want.Arrivals[x.key()].ID
			have.Arrivals[x.key()] = x
		}
	}
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

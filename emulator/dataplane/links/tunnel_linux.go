package links

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

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/nft"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
	"porthole.dev/porthole/internal/platform"
)

type (
	tunnel  struct{ kernel.Tunnel }
	peer    struct{ kernel.Peer }
	path    struct{ kernel.Path }
	arrival struct{ kernel.Arrival }
)

func (t tunnel) delete(d *Host) error {
	gone := "add table netdev " + t.Name + "\ndelete table netdev " + t.Name + "\n"
	return errors.Join(d.h.Remove(t.Name), d.nft.Run(context.Background(), gone))
}

func (p peer) create(d *Host) error {
	entry, err := p.entry(d)
	if err != nil {
		return err
	}
	return d.h.NeighSet(entry)
}

func (p peer) delete(d *Host) error {
	entry, err := p.entry(d)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return rtnl.UnlessGone(d.h.NeighDel(entry))
}

// entry says that frames to the peer's MAC go to its provider address.
func (p peer) entry(d *Host) (*netlink.Neigh, error) {
	link, err := d.h.LinkByName(p.Tunnel)
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

func (p path) create(d *Host) error {
	neigh, route, err := p.entries(d)
	if err != nil {
		return err
	}
	if err := d.h.NeighSet(neigh); err != nil {
		return fmt.Errorf("neighbour %s: %w", p.Gateway(), err)
	}
	return d.h.RouteReplace(route)
}

func (p path) delete(d *Host) error {
	neigh, route, err := p.entries(d)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(rtnl.UnlessGone(d.h.RouteDel(route)), rtnl.UnlessGone(d.h.NeighDel(neigh)))
}

// entries are the two that make a path: the route to the prefix, and the MAC of its gateway.
func (p path) entries(d *Host) (*netlink.Neigh, *netlink.Route, error) {
	link, err := d.h.LinkByName(p.Tunnel)
	if err != nil {
		return nil, nil, err
	}
	mac, err := net.ParseMAC(p.MAC)
	if err != nil {
		return nil, nil, err
	}

	index := link.Attrs().Index
	neigh := &netlink.Neigh{LinkIndex: index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT,
		IP: p.Gateway().AsSlice(), HardwareAddr: mac}
	route := &netlink.Route{LinkIndex: index, Dst: platform.IPNet(p.Prefix)}
	if p.Prefix.IsSingleIP() {
		route.Scope = netlink.SCOPE_LINK
	} else {
		route.Gw, route.Flags = p.Gateway().AsSlice(), int(netlink.FLAG_ONLINK)
	}
	return neigh, route, nil
}

// create makes the VXLAN device and brings it up. It learns no addresses: HNS says which node has which. After a
// failure no device is left.
func (t tunnel) create(d *Host) error {
	mac, err := net.ParseMAC(t.MAC)
	if err != nil {
		return err
	}
	v := &netlink.Vxlan{LinkAttrs: netlink.NewLinkAttrs(), VxlanId: int(t.VNI), SrcAddr: t.Local.AsSlice(),
		Port: int(t.Port), Learning: false}
	v.Name, v.MTU, v.HardwareAddr = t.Name, t.MTU, mac
	if err := d.h.LinkAdd(v); err != nil {
		return err
	}
	link, err := d.h.LinkByName(t.Name)
	if err == nil {
		err = d.h.Within(func() error { return sysctls(tunnelSettings(t.Name), true) })
	}
	if err == nil {
		err = d.nft.Run(context.Background(), arrivalRules(t.Name))
	}
	if err == nil {
		err = d.h.LinkSetUp(link)
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
func (a arrival) create(d *Host) error {
	return a.change(d, func(c *nftables.Conn, set *nftables.Set, e []nftables.SetElement) error {
		return c.SetAddElements(set, e)
	})
}

func (a arrival) delete(d *Host) error {
	return rtnl.UnlessGone(a.change(d, func(c *nftables.Conn, set *nftables.Set, e []nftables.SetElement) error {
		return c.SetDeleteElements(set, e)
	}))
}

func (a arrival) change(d *Host, change func(*nftables.Conn, *nftables.Set, []nftables.SetElement) error) error {
	mac, err := net.ParseMAC(a.MAC)
	if err != nil {
		return err
	}
	table := &nftables.Table{Name: a.Tunnel, Family: nftables.TableFamilyNetdev}
	set := &nftables.Set{Name: arrivals, Table: table, Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeEtherAddr, nftables.TypeIPAddr)}
	key := slices.Concat(mac, []byte{0, 0}, a.Addr.AsSlice()) // each part begins at a multiple of four bytes
	return nft.Within(d.h.Netns, func(c *nftables.Conn) error {
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
func (d *Host) observeTunnel(ctx context.Context, link netlink.Link, want kernel.State, have *kernel.State) error {
	a := link.Attrs()
	rules, err := d.nft.Ruleset(ctx, "netdev", a.Name)
	if err != nil {
		return fmt.Errorf("reading the arrivals of %s: %w", a.Name, err)
	}
	t := kernel.Tunnel{ID: want.Tunnels[a.Name].ID, Name: a.Name, MAC: a.HardwareAddr.String(), MTU: a.MTU,
		Up: a.Flags&net.FlagUp != 0 && len(rules.Chains["in"].Rules) == 1}
	for element := range rules.Sets[arrivals].Elems {
		mac, text, _ := strings.Cut(element, " . ")
		if addr, err := netip.ParseAddr(text); err == nil {
			x := kernel.Arrival{Tunnel: t.Name, MAC: mac, Addr: addr}
			x.ID = want.Arrivals[x.Key()].ID
			have.Arrivals[x.Key()] = x
		}
	}
	if v, ok := link.(*netlink.Vxlan); ok && !v.Learning {
		t.Local, _ = netip.AddrFromSlice(v.SrcAddr.To4())
		t.VNI, t.Port = uint32(v.VxlanId), uint16(v.Port)
	}
	have.Tunnels[t.Name] = t
	entries, err := d.h.NeighList(a.Index, unix.AF_BRIDGE)
	if err != nil {
		return fmt.Errorf("listing forwarding entries of %s: %w", a.Name, err)
	}
	for _, e := range entries {
		if provider, ok := netip.AddrFromSlice(e.IP.To4()); ok {
			p := kernel.Peer{Tunnel: t.Name, MAC: e.HardwareAddr.String(), Provider: provider}
			p.ID = want.Peers[p.Key()].ID
			have.Peers[p.Key()] = p
		}
	}

	neighs, err := d.h.NeighList(a.Index, unix.AF_INET)
	if err != nil {
		return fmt.Errorf("listing neighbours of %s: %w", a.Name, err)
	}
	macs := map[netip.Addr]string{}
	for _, n := range neighs {
		if addr, ok := netip.AddrFromSlice(n.IP.To4()); ok && n.State&netlink.NUD_PERMANENT != 0 {
			macs[addr] = n.HardwareAddr.String()
		}
	}

	routes, err := d.h.RouteList(link, unix.AF_INET)
	if err != nil {
		return fmt.Errorf("listing routes through %s: %w", a.Name, err)
	}
	for _, r := range routes {
		p := kernel.Path{Tunnel: t.Name, Prefix: rtnl.Destination(r.Dst, unix.AF_INET)}
		gw, _ := netip.AddrFromSlice(r.Gw.To4())
		if single := p.Prefix.IsSingleIP(); single && !gw.IsValid() || !single && gw == p.Gateway() {
			p.MAC = macs[p.Gateway()]
		}
		p.ID = want.Paths[p.Key()].ID
		have.Paths[p.Key()] = p
	}
	return nil
}

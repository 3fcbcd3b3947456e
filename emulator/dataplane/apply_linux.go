package dataplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

func (o add) apply(_ context.Context, d *DataPlane, _ State) error { return o.create(d) }
func (o set) apply(_ context.Context, d *DataPlane, _ State) error { return o.create(d) }
func (o del) apply(_ context.Context, d *DataPlane, _ State) error { return o.delete(d) }

func (tx *Transaction) apply(ctx context.Context, d *DataPlane, want State) error {
	if err := d.nft(ctx, strings.NewReader(strings.Join(tx.Lines, "\n")+"\n"), nil, "-f", "-"); err != nil {
		return err
	}
	return d.moveUDP(tx.Table, tx.Frontends, want)
}

// containerSettings let every program of the namespace send echo requests: a container's may not use raw sockets
// there, if it has users of its own. Adapters do not forward, as new ones on Windows: a namespace has that setting
// from the machine, where Docker and Podman switch it on.
var containerSettings = map[string]string{
	"net/ipv4/ping_group_range":    "0 2147483647",
	"net/ipv4/ip_forward":          "0",
	"net/ipv6/conf/all/forwarding": "0",
}

func (n ownNetns) create(*DataPlane) error {
	if err := platform.CreateNetns(n.name); err != nil {
		return err
	}
	return platform.InNetns(platform.NetnsPath(n.name), func() error { return sysctls(containerSettings, true) })
}

func (n ownNetns) delete(*DataPlane) error { return platform.DeleteNetns(n.name) }

// nft runs the nft program inside the host's network namespace.
func (d *DataPlane) nft(ctx context.Context, in *strings.Reader, out *bytes.Buffer, args ...string) error {
	cmd := exec.CommandContext(ctx, d.opts.Nft, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if in != nil {
		cmd.Stdin = in
	}
	if out != nil {
		cmd.Stdout = out
	}
	if err := platform.StartInNetns(d.opts.Netns, cmd); err != nil {
		return fmt.Errorf("starting nft: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// create fixes the bridge's MAC: the kernel would change it with every port.
func (b Bridge) create(d *DataPlane) error {
	link, err := d.handle.LinkByName(b.Name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
		// its MTU is set below: the kernel keeps one that it gets at creation only while there are ports
		br.Name = b.Name
		if br.HardwareAddr, err = net.ParseMAC(derivedMAC(b.ID)); err != nil {
			return err
		}
		if err := d.handle.LinkAdd(br); err != nil {
			return err
		}
		link, err = d.handle.LinkByName(b.Name)
	}
	if err != nil {
		return err
	}
	if link.Attrs().MTU != b.MTU {
		if err := d.handle.LinkSetMTU(link, b.MTU); err != nil {
			return err
		}
	}

	if err := platform.InNetns(d.opts.Netns, func() error { return sysctls(bridgeSettings(b), true) }); err != nil {
		return err
	}
	if b.Switched {
		if err := d.markSwitched(link.Attrs().Index); err != nil {
			return err
		}
	}
	return d.handle.LinkSetUp(link)
}

func (b Bridge) delete(d *DataPlane) error { return d.deleteLink(b.Name) }

// create gives the bridge the address and, if it has a gateway, a default route by it.
func (a bridgeAddr) create(d *DataPlane) error {
	link, err := d.handle.LinkByName(a.bridge)
	if err != nil {
		return err
	}
	if err := d.handle.AddrReplace(link, netlinkAddr(a.addr)); err != nil || !a.via.IsValid() {
		return err
	}
	// Linux prefers this route to an older one. On Windows the order does not matter, so programs must stand both.
	err = d.handle.RouteAddEcmp(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: anywhere(a.via), Gw: a.via.AsSlice(),
		Flags: int(netlink.FLAG_ONLINK)})
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

func (a bridgeAddr) delete(d *DataPlane) error {
	link, err := d.handle.LinkByName(a.bridge)
	if err != nil {
		return err
	}
	if err := d.handle.AddrDel(link, netlinkAddr(a.addr)); !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	return nil
}

func (p Port) delete(d *DataPlane) error { return d.deleteLink(p.Name) }

// create makes the veth pair with its far end already in the guest's namespace. If a step fails, the pair is deleted.
func (p Port) create(d *DataPlane) error {
	guest, err := os.Open(p.Netns)
	if err != nil {
		return fmt.Errorf("opening the guest's network namespace: %w", err)
	}
	defer guest.Close()
	mac, err := net.ParseMAC(p.MAC)
	if err != nil {
		return err
	}
	master := 0
	if p.Extension == "" {
		bridge, err := d.handle.LinkByName(p.Bridge)
		if err != nil {
			return fmt.Errorf("bridge %s: %w", p.Bridge, err)
		}
		master = bridge.Attrs().Index
	}

	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: p.Guest, PeerNamespace: netlink.NsFd(guest.Fd()),
		PeerHardwareAddr: mac, PeerMTU: uint32(p.MTU)}
	veth.Name, veth.MTU, veth.MasterIndex = p.Name, p.MTU, master
	if err := d.handle.LinkAdd(veth); err != nil {
		return err
	}
	if err := p.bringUp(d); err != nil {
		return errors.Join(err, d.deleteLink(p.Name))
	}
	return nil
}

// bringUp configures both ends of a port that was just made: it isolates the end at the bridge, so that pods reach
// each other only through the rules, and gives the guest's end its addresses and routes. The caller removes the port
// if it fails.
func (p Port) bringUp(d *DataPlane) error {
	link, err := d.handle.LinkByName(p.Name)
	if err != nil {
		return err
	}
	if err := p.join(d, link); err != nil {
		return err
	}
	h, err := handleAt(p.Netns, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	if lo, err := h.LinkByName("lo"); err == nil {
		if err := h.LinkSetUp(lo); err != nil {
			return fmt.Errorf("loopback of the guest: %w", err)
		}
	}

	eth, err := h.LinkByName(p.Guest)
	if err != nil {
		return err
	}
	for _, a := range p.Addrs {
		addr := netlinkAddr(a)
		if a.Addr().Is6() {
			// the bridge answers for no neighbour in IPv6, so all goes by the gateway
			addr.Flags |= unix.IFA_F_NOPREFIXROUTE
		}
		if err := h.AddrReplace(eth, addr); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}

	if err := h.LinkSetUp(eth); err != nil {
		return err
	}
	if err := d.handle.LinkSetUp(link); err != nil {
		return err
	}
	names := []string{p.Name}
	if p.Bridge != "" {
		names = append(names, p.Bridge)
	}
	if err := settle(h, p.Guest, d.handle, names...); err != nil {
		return err
	}
	for _, gw := range []netip.Addr{p.Gateway, p.Gateway6} {
		if !gw.IsValid() || p.Guest != "eth0" {
			continue
		}
		err = h.RouteReplace(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: anywhere(gw), Gw: gw.AsSlice(),
			Flags: int(netlink.FLAG_ONLINK)})
		if err != nil {
			return fmt.Errorf("default route via %s: %w", gw, err)
		}
	}
	return nil
}

// settle makes the kernel carry packets over a new port now. It would notice the carrier up to a second later (its link
// watch is limited to one run a second), but reading a single link runs what is pending for it: seen on Linux 6.18.
func settle(guest *netlink.Handle, eth string, host *netlink.Handle, names ...string) error {
	if _, err := guest.LinkByName(eth); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := host.LinkByName(name); err != nil {
			return err
		}
	}
	return nil
}

func (d *DataPlane) deleteLink(name string) error {
	link, err := d.handle.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := d.handle.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	return nil
}

func netlinkAddr(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD // nobody else has it: HNS gives addresses out
	}
	return a
}

// anywhere is the destination of a default route beside an address of its family.
func anywhere(gw netip.Addr) *net.IPNet {
	none := netip.IPv4Unspecified()
	if gw.Is6() {
		none = netip.IPv6Unspecified()
	}
	return &net.IPNet{IP: none.AsSlice(), Mask: net.CIDRMask(0, none.BitLen())}
}

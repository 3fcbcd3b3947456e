package dataplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// apply carries out one operation. Deleting what is gone is success.
func (d *DataPlane) apply(ctx context.Context, op Op, want State) error {
	switch {
	case op.Rules != nil:
		if err := d.nft(ctx, strings.NewReader(strings.Join(op.Rules.Lines, "\n")+"\n"), nil, "-f", "-"); err != nil {
			return err
		}
		return d.moveUDP(op.Rules.Table, op.Rules.Frontends, want)
	case op.Tunnel != nil || op.Peer != nil || op.Path != nil:
		return d.applyTunnel(op)
	case op.Keep != nil:
		return d.applyKeep(op.Verb, *op.Keep)
	case op.Port != nil && op.Verb == "del":
		return d.deleteLink(op.Port.Name)
	case op.Port != nil:
		return d.addPort(op.Port)
	case op.Bridge != nil && op.Addr.IsValid():
		return d.bridgeAddr(op)
	case op.Bridge != nil && op.Verb == "del":
		return d.deleteLink(op.Bridge.Name)
	case op.Bridge != nil:
		return d.setBridge(op.Bridge)
	case op.Verb == "del":
		return platform.DeleteNetns(op.Netns)
	}
	return platform.CreateNetns(op.Netns)
}

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

// setBridge makes the bridge, or mends its settings. Its MAC is fixed: the kernel would change it with every port.
func (d *DataPlane) setBridge(b *Bridge) error {
	link, err := d.handle.LinkByName(b.Name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
		br.Name, br.MTU = b.Name, b.MTU
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
	if err := platform.InNetns(d.opts.Netns, func() error { return sysctls(bridgeSettings(b.Name, b.Six), true) }); err != nil {
		return err
	}
	return d.handle.LinkSetUp(link)
}

func (d *DataPlane) bridgeAddr(op Op) error {
	link, err := d.handle.LinkByName(op.Bridge.Name)
	if err != nil {
		return err
	}
	if op.Verb == "del" {
		err := d.handle.AddrDel(link, netlinkAddr(op.Addr))
		if errors.Is(err, unix.EADDRNOTAVAIL) {
			return nil
		}
		return err
	}
	return d.handle.AddrReplace(link, netlinkAddr(op.Addr))
}

// addPort makes the veth pair with its far end already in the guest's namespace. What was made half is taken back.
func (d *DataPlane) addPort(p *Port) error {
	guest, err := netns.GetFromPath(p.Netns)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", p.Netns, err)
	}
	defer guest.Close()
	mac, err := net.ParseMAC(p.MAC)
	if err != nil {
		return err
	}
	bridge, err := d.handle.LinkByName(p.Bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", p.Bridge, err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: p.Guest, PeerNamespace: netlink.NsFd(guest),
		PeerHardwareAddr: mac, PeerMTU: uint32(p.MTU)}
	veth.Name, veth.MTU, veth.MasterIndex = p.Name, p.MTU, bridge.Attrs().Index
	if err := d.handle.LinkAdd(veth); err != nil {
		return err
	}
	if err := d.bringUp(p, guest); err != nil {
		return errors.Join(err, d.deleteLink(p.Name))
	}
	return nil
}

func (d *DataPlane) bringUp(p *Port, guest netns.NsHandle) error {
	link, err := d.handle.LinkByName(p.Name)
	if err != nil {
		return err
	}
	if err := d.handle.LinkSetIsolated(link, true); err != nil {
		return fmt.Errorf("isolating the port: %w", err)
	}
	h, err := netlink.NewHandleAt(guest, unix.NETLINK_ROUTE)
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
			addr.Flags |= unix.IFA_F_NOPREFIXROUTE // the bridge answers for no neighbour in IPv6, so all goes by the gateway
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
	if err := settle(h, p.Guest, d.handle, p.Name, p.Bridge); err != nil {
		return err
	}
	for _, gw := range []netip.Addr{p.Gateway, p.Gateway6} {
		if !gw.IsValid() || p.Guest != "eth0" {
			continue
		}
		err = h.RouteReplace(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: anywhere(gw), Gw: gw.AsSlice(), Flags: int(netlink.FLAG_ONLINK)})
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

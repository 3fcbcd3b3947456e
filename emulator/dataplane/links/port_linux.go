package links

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
	"porthole.dev/porthole/internal/platform"
)

type port struct{ kernel.Port }

func (p port) delete(d *Host) error { return d.h.Remove(p.Name) }

// create makes the veth pair with its far end already in the guest's namespace. If a step fails, the pair is deleted.
func (p port) create(d *Host) error {
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
		bridge, err := d.h.LinkByName(p.Bridge)
		if err != nil {
			return fmt.Errorf("bridge %s: %w", p.Bridge, err)
		}
		master = bridge.Attrs().Index
	}

	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: p.Guest, PeerNamespace: netlink.NsFd(guest.Fd()),
		PeerHardwareAddr: mac, PeerMTU: uint32(p.MTU)}
	veth.Name, veth.MTU, veth.MasterIndex = p.Name, p.MTU, master
	if err := d.h.LinkAdd(veth); err != nil {
		return err
	}
	if err := p.bringUp(d); err != nil {
		return errors.Join(err, d.h.Remove(p.Name))
	}
	return nil
}

// bringUp configures both ends of a port that was just made: it isolates the end at the bridge, so that pods reach
// each other only through the rules, and gives the guest's end its addresses and routes. The caller removes the port
// if it fails.
func (p port) bringUp(d *Host) error {
	link, err := d.h.LinkByName(p.Name)
	if err != nil {
		return err
	}
	if err := p.join(d, link); err != nil {
		return err
	}
	h, err := rtnl.Open(p.Netns, unix.NETLINK_ROUTE)
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
		addr := rtnl.Addr(a)
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
	if err := d.h.LinkSetUp(link); err != nil {
		return err
	}
	names := []string{p.Name}
	if p.Bridge != "" {
		names = append(names, p.Bridge)
	}
	if err := settle(h, p.Guest, d.h, names...); err != nil {
		return err
	}
	for _, gw := range []netip.Addr{p.Gateway, p.Gateway6} {
		if !gw.IsValid() || p.Guest != "eth0" {
			continue
		}
		err = h.RouteReplace(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: rtnl.Anywhere(gw), Gw: gw.AsSlice(),
			Flags: int(netlink.FLAG_ONLINK)})
		if err != nil {
			return fmt.Errorf("default route via %s: %w", gw, err)
		}
	}
	return nil
}

// settle makes the kernel carry packets over a new port now. It would notice the carrier up to a second later (its link
// watch is limited to one run a second), but reading a single link runs what is pending for it: seen on Linux 6.18.
func settle(guest *rtnl.Handle, eth string, host *rtnl.Handle, names ...string) error {
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

// join makes the host's end of a port what it is: an isolated port of the network's bridge, or the port of a switch
// extension. Such a one is on no bridge: Open vSwitch finds it by the endpoint's name and reads its packets, which the
// host's own stack must not see. As Open vSwitch is a program here, the guest computes the checksums of what it sends.
func (p port) join(d *Host, link netlink.Link) error {
	if p.Extension == "" {
		if err := d.h.LinkSetIsolated(link, !p.Open); err != nil {
			return fmt.Errorf("isolating the port: %w", err)
		}
		return nil
	}
	if err := d.h.LinkAddAltName(link, p.Extension); err != nil {
		return fmt.Errorf("naming the port %s for the switch extension: %w", p.Extension, err)
	}
	if err := platform.InNetns(p.Netns, func() error { return platform.StopChecksumOffload(p.Guest) }); err != nil {
		return err
	}
	return d.h.Within(func() error { return platform.DropIngress(p.Name) })
}

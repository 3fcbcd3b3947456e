package links

import (
	"errors"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
)

type bridge struct{ kernel.Bridge }

type bridgeAddr struct{ kernel.BridgeAddr }

// create fixes the bridge's MAC: the kernel would change it with every port.
func (b bridge) create(d *Host) error {
	link, err := d.h.LinkByName(b.Name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
		// its MTU is set below: the kernel keeps one that it gets at creation only while there are ports
		br.Name = b.Name
		if br.HardwareAddr, err = net.ParseMAC(kernel.DerivedMAC(b.ID)); err != nil {
			return err
		}
		if err := d.h.LinkAdd(br); err != nil {
			return err
		}
		link, err = d.h.LinkByName(b.Name)
	}
	if err != nil {
		return err
	}
	if link.Attrs().MTU != b.MTU {
		if err := d.h.LinkSetMTU(link, b.MTU); err != nil {
			return err
		}
	}

	if err := d.h.Within(func() error { return sysctls(bridgeSettings(b.Bridge), true) }); err != nil {
		return err
	}
	if b.Switched {
		if err := d.stack.MarkSwitched(link.Attrs().Index); err != nil {
			return err
		}
	}
	return d.h.LinkSetUp(link)
}

func (b bridge) delete(d *Host) error { return d.h.Remove(b.Name) }

// create gives the bridge the address and, if it has a gateway, a default route by it.
func (a bridgeAddr) create(d *Host) error {
	link, err := d.h.LinkByName(a.Bridge)
	if err != nil {
		return err
	}
	if err := d.h.AddrReplace(link, rtnl.Addr(a.Addr)); err != nil || !a.Via.IsValid() {
		return err
	}
	// Linux prefers this route to an older one. On Windows the order does not matter, so programs must stand both.
	err = d.h.RouteAddEcmp(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: rtnl.Anywhere(a.Via), Gw: a.Via.AsSlice(),
		Flags: int(netlink.FLAG_ONLINK)})
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

func (a bridgeAddr) delete(d *Host) error {
	link, err := d.h.LinkByName(a.Bridge)
	if err != nil {
		return err
	}
	if err := d.h.AddrDel(link, rtnl.Addr(a.Addr)); !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	return nil
}

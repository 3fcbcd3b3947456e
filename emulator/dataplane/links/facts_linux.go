package links

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
	"porthole.dev/porthole/internal/platform"
)

// Facts reads the uplink. Without it, or its address, the host is alone: nothing leaves it, and the loopback address
// stands in for the node's.
func (d *Host) Facts(uplink string) (kernel.Facts, error) {
	f := kernel.Facts{Uplink: uplink, NetnsDir: platform.NetnsDir, MTU: 1500,
		Node: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	link, err := d.h.Named(uplink)
	if link == nil && err == nil {
		link, err = d.h.Named(kernel.Switch{Link: uplink}.Unfinished())
	}
	if err != nil {
		return f, fmt.Errorf("reading uplink %s: %w", uplink, err)
	}
	if link == nil {
		return f, nil
	}

	f.MTU = link.Attrs().MTU
	if away := d.stack.Lacks(link.Attrs().Name); away != nil {
		f.Node, f.Node6 = away.Node(f.Node)
		return f, nil
	}
	addrs, err := d.h.AddrList(link, unix.AF_INET)
	if err != nil {
		return f, fmt.Errorf("reading addresses of uplink %s: %w", uplink, err)
	}
	if len(addrs) > 0 {
		f.Node, _ = netip.AddrFromSlice(addrs[0].IP.To4())
	}
	if addrs, err = d.h.AddrList(link, unix.AF_INET6); err != nil {
		return f, fmt.Errorf("reading addresses of uplink %s: %w", uplink, err)
	}
	if six := rtnl.Prefixes(addrs); len(six) > 0 {
		f.Node6 = six[0].Addr()
	}
	if away := d.stack.Lacks(link.Attrs().Name); away != nil { // since the addresses were read
		f.Node, f.Node6 = away.Node(f.Node)
	}
	return f, nil
}

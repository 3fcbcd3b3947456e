package platform

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// CreateBridge makes a bridge called name in the current network namespace, or uses the one that is there, and fixes
// its hardware address. Otherwise the kernel would give the bridge the lowest address of its ports, which changes when
// a port comes or goes. Neighbours would send packets to the former address, and lose them, for up to 40 s: the time
// until the kernel checks a neighbour again (Linux net/ipv4/neigh: base_reachable_time and delay_first_probe_time).
func CreateBridge(name string) error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	bridge.Name = name
	if err := netlink.LinkAdd(bridge); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("creating bridge %s: %w", name, err)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	if err := netlink.LinkSetHardwareAddr(link, link.Attrs().HardwareAddr); err != nil {
		return fmt.Errorf("keeping the hardware address of bridge %s: %w", name, err)
	}
	return nil
}

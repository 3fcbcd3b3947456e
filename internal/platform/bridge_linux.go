package platform

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// CreateBridge makes a bridge called name in the current network namespace, or takes the one that is there. It keeps its
// hardware address for good. The kernel would give it the lowest one of its ports, another one when a port comes or goes;
// who has found the bridge as a neighbour sends packets to the former address then, which nobody takes, for up to 40 s
// (the time until a neighbour is looked for again, Linux net/ipv4/neigh: base_reachable_time and delay_first_probe_time).
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

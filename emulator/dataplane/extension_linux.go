package dataplane

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
)

// join makes the host's end of a port what it is: an isolated port of the network's bridge, or the port of a switch
// extension. Such a one is on no bridge: Open vSwitch finds it by the endpoint's name and reads its packets, which the
// host's own stack must not see. As Open vSwitch is a program here, the guest computes the checksums of what it sends.
func (p Port) join(d *DataPlane, link netlink.Link) error {
	if p.Extension == "" {
		if err := d.handle.LinkSetIsolated(link, !p.Open); err != nil {
			return fmt.Errorf("isolating the port: %w", err)
		}
		return nil
	}
	if err := d.handle.LinkAddAltName(link, p.Extension); err != nil {
		return fmt.Errorf("naming the port %s for the switch extension: %w", p.Extension, err)
	}
	if err := platform.InNetns(p.Netns, func() error { return platform.StopChecksumOffload(p.Guest) }); err != nil {
		return err
	}
	return platform.InNetns(d.opts.Netns, func() error { return platform.DropIngress(p.Name) })
}

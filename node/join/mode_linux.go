package join

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/routes/vxlan"
)

// tunnelDevice returns the network device that the mode vxlan makes on a Linux node; "" in other modes. Its name has the number of the
// virtual network.
func tunnelDevice(s *Setup) string {
	if s.Network != vxlan.BackendType {
		return ""
	}
	c := vxlan.Default
	for _, a := range s.RoutesArgs {
		if text, is := strings.CutPrefix(a, "--vxlan-vni="); is {
			if n, err := strconv.ParseUint(text, 10, 32); err == nil { // others porthole-routes refused
				c.VNI = uint32(n)
			}
		}
	}
	return c.Device()
}

// removeTunnelDevice deletes that device. One that is gone is no error.
func removeTunnelDevice(s *Setup) error {
	link, err := findLink(tunnelDevice(s))
	if err != nil || link == nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("deleting the device %s: %w", link.Attrs().Name, err)
	}
	return nil
}

// findLink returns a network device by its name; nil if there is none.
func findLink(name string) (netlink.Link, error) {
	if name == "" {
		return nil, nil
	}
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	return link, err
}

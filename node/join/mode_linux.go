package join

import (
	"fmt"
	"strconv"
	"strings"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/vxlan"
)

// tunnelDevice returns the network device that the mode vxlan makes on a Linux node; "" in other modes. Its name has
// the number of the virtual network.
func tunnelDevice(made Choices) string {
	if made.Network != vxlan.BackendType {
		return ""
	}
	c := vxlan.Default
	for _, a := range made.RoutesArgs {
		if text, is := strings.CutPrefix(a, "--vxlan-vni="); is {
			if n, err := strconv.ParseUint(text, 10, 32); err == nil { // others porthole-routes refused
				c.VNI = uint32(n)
			}
		}
	}
	return c.Device()
}

// removeTunnelDevice deletes that device. One that is gone is no error.
func removeTunnelDevice(made Choices) error {
	name := tunnelDevice(made)
	if name == "" {
		return nil
	}
	if err := platform.DeleteLink(name); err != nil {
		return fmt.Errorf("deleting the device %s: %w", name, err)
	}
	return nil
}

// Package links reads and writes what the kernel of an emulated host holds for HNS beside the nft tables: bridges,
// ports, tunnels, network cards that are ports of a switch, the network namespaces of pods, and ways of marked packets.
package links

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/emulator/dataplane/nft"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
)

// Host is the links of one host.
type Host struct {
	h     *rtnl.Handle
	nft   nft.Program
	stack *hoststack.Stack
}

// New prepares the network of the host that h is open in. It changes no link. The caller closes h when it is done with
// the links.
func New(h *rtnl.Handle, program nft.Program, stack *hoststack.Stack) (*Host, error) {
	if err := h.Within(func() error { return sysctls(hostSettings, true) }); err != nil {
		return nil, fmt.Errorf("preparing the host's network: %w", err)
	}
	return &Host{h: h, nft: program, stack: stack}, nil
}

// Counters returns what a link has counted; nil: there is no such link.
func (d *Host) Counters(name string) (*netlink.LinkStatistics, error) {
	link, err := d.h.Named(name)
	if err != nil || link == nil {
		return nil, err
	}
	return link.Attrs().Statistics, nil
}

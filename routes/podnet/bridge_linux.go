package podnet

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// RangeInUseError says that the node's pod range is another one now, while pods of the old one run.
type RangeInUseError struct {
	Has   []netip.Prefix // addresses of the bridge outside the node's ranges
	Wants []netip.Prefix // the node's ranges
	Ports int            // of pods that are attached
}

func (e *RangeInUseError) Error() string {
	return fmt.Sprintf(
		"the pod range of this node is %s now, but bridge %s has %s and %d pods are attached to it; nothing is changed: drain the node (kubectl drain), or give it its old range back",
		texts(e.Wants), Bridge, texts(e.Has), e.Ports)
}

// NeedsDecision marks an error about which somebody has to decide.
func (*RangeInUseError) NeedsDecision() {}

func texts(list []netip.Prefix) string {
	var all []string
	for _, p := range list {
		all = append(all, p.String())
	}
	return strings.Join(all, " and ")
}

// FitBridge removes the bridge of an earlier pod range from the caller's network namespace, so that the bridge plugin
// makes it anew with the next pod. While pods are attached to it the error is a *RangeInUseError. It reports whether
// it removed one.
func FitBridge(o Options) (changed bool, err error) {
	link, err := netlink.LinkByName(Bridge)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at bridge %s: %w", Bridge, err)
	}
	has, err := strange(link, o)
	if err != nil || len(has) == 0 {
		return false, err
	}

	links, err := netlink.LinkList()
	if err != nil {
		return false, fmt.Errorf("listing what is attached to bridge %s: %w", Bridge, err)
	}
	ports := 0
	for _, l := range links {
		if l.Attrs().MasterIndex == link.Attrs().Index {
			ports++
		}
	}
	if ports > 0 {
		return false, &RangeInUseError{Has: has, Wants: o.ranges(), Ports: ports}
	}
	if err := netlink.LinkDel(link); err != nil {
		return false, fmt.Errorf("removing bridge %s of an earlier pod range: %w", Bridge, err)
	}
	return true, nil
}

// strange returns the addresses of the bridge that are in none of the node's ranges.
func strange(link netlink.Link, o Options) ([]netip.Prefix, error) {
	addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("listing addresses of bridge %s: %w", Bridge, err)
	}
	var list []netip.Prefix
	for _, a := range addrs {
		addr, _ := netip.AddrFromSlice(a.IP)
		ones, _ := a.Mask.Size()
		p := netip.PrefixFrom(addr.Unmap(), ones)
		if !addr.IsLinkLocalUnicast() && !slices.Contains(o.ranges(), p.Masked()) {
			list = append(list, p)
		}
	}
	return list, nil
}

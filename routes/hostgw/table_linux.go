package hostgw

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/table"
)

// linuxTable is the main route table of one network namespace.
type linuxTable struct {
	kernel *netlink.Handle
	netns  string // path of the network namespace; "": the process's own
	self   netip.Addr
	pods   netip.Prefix
}

// NewTable returns this host's route table: routes inside the range pods, through the interface that has the address self.
func NewTable(self netip.Addr, pods netip.Prefix) (hostTable, error) {
	return newTableIn("", self, pods)
}

// newTableIn is NewTable for the network namespace at path; "" means the process's own.
func newTableIn(path string, self netip.Addr, pods netip.Prefix) (*linuxTable, error) {
	t := &linuxTable{netns: path, self: self, pods: pods.Masked()}
	err := platform.InNetns(path, func() (err error) {
		t.kernel, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening the kernel's route table: %w", err)
	}
	return t, nil
}

// uplink returns the interface that has the node's address, and what it reaches directly.
func (t *linuxTable) uplink() (netlink.Link, []netip.Prefix, error) {
	addrs, err := t.kernel.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, nil, fmt.Errorf("listing addresses: %w", err)
	}

	index := 0
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP); ok && ip.Unmap() == t.self {
			index = a.LinkIndex
		}
	}
	if index == 0 {
		return nil, nil, fmt.Errorf("no interface of this host has the node's address %s", t.self)
	}
	link, err := t.kernel.LinkByIndex(index)
	if err != nil {
		return nil, nil, fmt.Errorf("interface of address %s: %w", t.self, err)
	}

	var onLink []netip.Prefix
	for _, a := range addrs {
		if a.LinkIndex == index {
			onLink = append(onLink, prefixOf(a.IPNet))
		}
	}
	return link, onLink, nil
}

// List returns the routes of the main table that are ours, by their protocol number, and those of others that lead into the
// range of the pods, because ours must not replace them.
func (t *linuxTable) List() ([]table.Route, []netip.Prefix, error) {
	_, onLink, err := t.uplink()
	if err != nil {
		return nil, nil, err
	}
	listed, err := t.kernel.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, nil, fmt.Errorf("listing routes: %w", err)
	}

	var routes []table.Route
	for _, r := range listed {
		if r.Dst == nil || r.Gw == nil {
			continue
		}
		dst := prefixOf(r.Dst)
		hop, _ := netip.AddrFromSlice(r.Gw)
		ours := r.Protocol == Protocol
		if !dst.IsValid() || !ours && !t.pods.Overlaps(dst) {
			continue
		}
		routes = append(routes, table.Route{Dst: dst, NextHop: hop.Unmap(), Ours: ours})
	}
	return routes, onLink, nil
}

// Add replaces a route with the same destination and metric, somebody else's included, because the kernel keeps only one of them.
// The kernel chooses the source address.
func (t *linuxTable) Add(dst netip.Prefix, nextHop netip.Addr) error {
	link, _, err := t.uplink()
	if err != nil {
		return err
	}
	return t.kernel.RouteReplace(t.route(link.Attrs().Index, dst, nextHop))
}

func (t *linuxTable) Delete(dst netip.Prefix, nextHop netip.Addr) error {
	err := t.kernel.RouteDel(t.route(0, dst, nextHop))
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func (t *linuxTable) route(link int, dst netip.Prefix, nextHop netip.Addr) *netlink.Route {
	return &netlink.Route{
		LinkIndex: link,
		Dst:       &net.IPNet{IP: dst.Addr().AsSlice(), Mask: net.CIDRMask(dst.Bits(), dst.Addr().BitLen())},
		Gw:        nextHop.AsSlice(),
		Protocol:  Protocol,
	}
}

// Watch subscribes to routes, addresses and links: a link that goes down loses its routes.
func (t *linuxTable) Watch(ctx context.Context, changed func()) error {
	done := make(chan struct{})
	defer close(done)
	failed := make(chan error, 3)
	report := func(err error) {
		select {
		case failed <- err:
		default:
		}
	}

	routes := make(chan netlink.RouteUpdate, 64)
	links := make(chan netlink.LinkUpdate, 64)
	addrs := make(chan netlink.AddrUpdate, 64)
	err := platform.InNetns(t.netns, func() error {
		return errors.Join(
			netlink.RouteSubscribeWithOptions(routes, done, netlink.RouteSubscribeOptions{ErrorCallback: report}),
			netlink.LinkSubscribeWithOptions(links, done, netlink.LinkSubscribeOptions{ErrorCallback: report}),
			netlink.AddrSubscribeWithOptions(addrs, done, netlink.AddrSubscribeOptions{ErrorCallback: report}),
		)
	})
	if err != nil {
		return fmt.Errorf("subscribing to the kernel's route changes: %w", err)
	}

	changed() // there may have been changes before the subscriptions were complete
	for {
		var open bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return fmt.Errorf("reading the kernel's route changes: %w", err)
		case _, open = <-routes:
		case _, open = <-links:
		case _, open = <-addrs:
		}
		if !open {
			return errors.New("the kernel ended the subscription to route changes")
		}
		changed()
	}
}

func prefixOf(n *net.IPNet) netip.Prefix {
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	if !ok {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(addr.Unmap(), ones).Masked()
}

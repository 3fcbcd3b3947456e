package fib

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/table"
)

// Table is the main route table of one network namespace.
type Table struct {
	kernel *netlink.Handle
	netns  string // path of the network namespace; "": the process's own
	self   netip.Addr
	pods   []netip.Prefix
	link   atomic.Int64          // index of the interface with the node's address, as List found it last; 0: not known
	ours   map[netip.Prefix]bool // destinations of our routes, as List found them last
}

// New returns this host's route table: routes inside the ranges pods, through the interface that has the address self.
// The range 0.0.0.0/0 stands for the default route only.
func New(self netip.Addr, pods ...netip.Prefix) (*Table, error) {
	return In("", self, pods...)
}

// In is New for the network namespace at path; "" means the process's own.
func In(path string, self netip.Addr, pods ...netip.Prefix) (*Table, error) {
	t := &Table{netns: path, self: self, pods: pods}
	err := platform.InNetns(path, func() (err error) {
		t.kernel, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening the kernel's route table: %w", err)
	}
	return t, nil
}

// Close frees what the table holds of the kernel. The routes stay.
func (t *Table) Close() { t.kernel.Close() }

// index returns the interface of new routes. To ask the kernel for each of thousands would take longer than to make
// them, so that what List found counts: a pass lists before it changes anything.
func (t *Table) index() (int, error) {
	if index := t.link.Load(); index != 0 {
		return int(index), nil
	}
	link, _, err := t.uplink()
	if err != nil {
		return 0, err
	}
	return link.Attrs().Index, nil
}

// uplink returns the interface that has the node's address, and what it reaches directly.
func (t *Table) uplink() (netlink.Link, []netip.Prefix, error) {
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

// Segments returns what the interfaces of this host reach without a router.
func (t *Table) Segments() ([]netip.Prefix, error) {
	addrs, err := t.kernel.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	var segments []netip.Prefix
	for _, a := range addrs {
		segment := a.IPNet
		if a.Peer != nil {
			segment = a.Peer
		}
		if p := prefixOf(segment); p.IsValid() {
			segments = append(segments, p)
		}
	}
	return segments, nil
}

// List returns the routes of the main table that are ours, by their protocol number, and those of others that lead
// into the range of the pods, because ours must not replace them. A route with several next hops is listed once for
// each. One of others without a next hop has the zero address: it leads to a segment, or drops packets (blackhole).
func (t *Table) List() ([]table.Route, []netip.Prefix, error) {
	link, onLink, err := t.uplink()
	if err != nil {
		t.link.Store(0)
		return nil, nil, err
	}
	t.link.Store(int64(link.Attrs().Index))
	listed, err := t.kernel.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, nil, fmt.Errorf("listing routes: %w", err)
	}

	var routes []table.Route
	t.ours = map[netip.Prefix]bool{}
	for _, r := range listed {
		if r.Dst == nil {
			continue
		}
		dst := prefixOf(r.Dst)
		ours := r.Protocol == Protocol
		if !dst.IsValid() || !ours &&
			!slices.ContainsFunc(t.pods,
				func(p netip.Prefix) bool { return p == dst || p.Bits() > 0 && p.Overlaps(dst) }) {
			continue
		}
		hops := nextHops(r)
		if ours {
			t.ours[dst] = true
		} else if len(hops) == 0 {
			hops = []netip.Addr{{}}
		}
		for _, hop := range hops {
			routes = append(routes, table.Route{Dst: dst, NextHop: hop, Ours: ours})
		}
	}
	return routes, onLink, nil
}

// nextHops returns the gateways of a route: several of a multipath route, none of one without a gateway.
func nextHops(r netlink.Route) []netip.Addr {
	var hops []netip.Addr
	if hop, ok := netip.AddrFromSlice(r.Gw); ok {
		hops = append(hops, hop.Unmap())
	}
	for _, path := range r.MultiPath {
		if hop, ok := netip.AddrFromSlice(path.Gw); ok {
			hops = append(hops, hop.Unmap())
		}
	}
	return hops
}

// Add replaces a route with the same destination and metric, somebody else's included, because the kernel keeps only
// one of them. The kernel chooses the source address.
func (t *Table) Add(dst netip.Prefix, nextHop netip.Addr) error {
	index, err := t.index()
	if err != nil {
		return err
	}
	return t.kernel.RouteReplace(t.route(index, dst, nextHop))
}

// Set makes the route to dst go through exactly these next hops, at least one, in one step. Unlike Add it replaces no
// route of somebody else: if List found none of ours, one that has come meanwhile is an error.
func (t *Table) Set(dst netip.Prefix, nextHops []netip.Addr) error {
	index, err := t.index()
	if err != nil {
		return err
	}

	route := t.route(index, dst, nextHops[0])
	if len(nextHops) > 1 {
		route = t.route(0, dst, netip.Addr{})
		for _, hop := range nextHops {
			route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{LinkIndex: index, Gw: hop.AsSlice()})
		}
	}
	if t.ours[dst] {
		return t.kernel.RouteReplace(route)
	}
	if err := t.kernel.RouteAdd(route); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return errors.New("somebody has made a route to the same destination in this moment")
}

// Delete removes a route of one next hop. One that is gone is success.
func (t *Table) Delete(dst netip.Prefix, nextHop netip.Addr) error {
	return t.delete(t.route(0, dst, nextHop))
}

// Remove removes our route to dst, whatever its next hops. One that is gone is success.
func (t *Table) Remove(dst netip.Prefix) error { return t.delete(t.route(0, dst, netip.Addr{})) }

func (t *Table) delete(route *netlink.Route) error {
	err := t.kernel.RouteDel(route)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func (t *Table) route(link int, dst netip.Prefix, nextHop netip.Addr) *netlink.Route {
	return &netlink.Route{
		LinkIndex: link,
		Dst:       &net.IPNet{IP: dst.Addr().AsSlice(), Mask: net.CIDRMask(dst.Bits(), dst.Addr().BitLen())},
		Gw:        nextHop.AsSlice(),
		Protocol:  Protocol,
	}
}

// Watch subscribes to routes, addresses and links: a link that goes down loses its routes.
func (t *Table) Watch(ctx context.Context, changed func()) error {
	return Watch(ctx, t.netns, nil, changed)
}

func prefixOf(n *net.IPNet) netip.Prefix {
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	if !ok {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(addr.Unmap(), ones).Masked()
}

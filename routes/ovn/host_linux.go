package ovn

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/fib"
	"porthole.dev/porthole/routes/table"
)

// linuxHost is a Linux node. Its functions act on the network namespace of the process.
type linuxHost struct {
	o       Options
	sw      *vswitch
	switchd *switchd
}

// NewHost returns this host.
func NewHost(o Options) (host, error) {
	return &linuxHost{o: o, sw: &vswitch{address: o.Database}, switchd: newSwitchd(o.Database)}, nil
}

// Observe implements host.
func (h *linuxHost) Observe(ctx context.Context) (Seen, error) {
	seen, err := h.sw.observe(ctx)
	if err != nil {
		return seen, err
	}
	if _, made := seen.Bridges[integration]; made {
		seen.Away = h.switchd.away()
	}
	links, err := netlink.LinkList()
	if err != nil {
		return seen, fmt.Errorf("listing interfaces: %w", err)
	}

	for _, l := range links {
		a := l.Attrs()
		addrs, err := netlink.AddrList(l, unix.AF_INET)
		if err != nil {
			return seen, fmt.Errorf("listing addresses of %s: %w", a.Name, err)
		}
		link := Link{Up: a.Flags&unix.IFF_UP != 0, MAC: a.HardwareAddr.String(), MTU: a.MTU}
		for _, addr := range addrs {
			if ip, ok := netip.AddrFromSlice(addr.IP.To4()); ok {
				ones, _ := addr.Mask.Size()
				link.Addrs = append(link.Addrs, netip.PrefixFrom(ip, ones))
				seen.Addrs[ip] = a.MTU
			}
		}
		if _, port := seen.Bridges[integration].Ports[a.Name]; !port && ovnet.IsPodLink(a.Name) {
			seen.Loose = append(seen.Loose, a.Name)
		}
		if slices.Contains([]string{h.o.Uplink, external, NodeLink(h.o.Node)}, a.Name) {
			seen.Links[a.Name] = link
		}
	}
	if card, ok := seen.Links[h.o.Uplink]; ok {
		if card.Prepared, err = platform.IsSwitchPort(h.o.Uplink); err != nil {
			return seen, err
		}
		seen.Links[h.o.Uplink] = card
		if err := hostRoutes(&seen, h.o.Uplink, external); err != nil {
			return seen, err
		}
	}
	seen.Routes, err = h.routes()
	return seen, err
}

// hostProtocols are those of routes that somebody made by hand (boot), a program that configures the network, or a
// DHCP client. Routing daemons make theirs anew by themselves.
var hostProtocols = []netlink.RouteProtocol{unix.RTPROT_BOOT, unix.RTPROT_STATIC, unix.RTPROT_DHCP}

// hostRoutes adds to links the host's routes through them. A link that has been deleted since it was listed is removed
// from seen.
func hostRoutes(seen *Seen, names ...string) error {
	for _, name := range names {
		link, there := seen.Links[name]
		if !there {
			continue
		}
		l, err := netlink.LinkByName(name)
		if errors.As(err, &netlink.LinkNotFoundError{}) { // ovs-vswitchd has removed it since it was listed
			delete(seen.Links, name)
			continue
		}
		if err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}

		listed, err := netlink.RouteListFiltered(unix.AF_INET,
			&netlink.Route{Table: unix.RT_TABLE_MAIN, LinkIndex: l.Attrs().Index},
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_OIF)
		if err != nil {
			return fmt.Errorf("listing routes through %s: %w", name, err)
		}
		for _, r := range listed {
			if slices.Contains(hostProtocols, r.Protocol) && r.Type == unix.RTN_UNICAST && len(r.MultiPath) == 0 {
				link.Routes = append(link.Routes, hostRoute(r))
			}
		}
		seen.Links[name] = link
	}
	return nil
}

func hostRoute(r netlink.Route) HostRoute {
	h := HostRoute{Dst: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Metric: r.Priority, Protocol: int(r.Protocol),
		OnLink: r.Flags&unix.RTNH_F_ONLINK != 0}
	if r.Dst != nil {
		ip, _ := netip.AddrFromSlice(r.Dst.IP.To4())
		ones, _ := r.Dst.Mask.Size()
		h.Dst = netip.PrefixFrom(ip, ones)
	}
	if via, ok := netip.AddrFromSlice(r.Gw.To4()); ok {
		h.Via = via
	}
	return h
}

// routes returns our routes, and those of others to the same destinations.
func (h *linuxHost) routes() ([]table.Route, error) {
	listed, err := netlink.RouteListFiltered(unix.AF_INET, &netlink.Route{Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	var out []table.Route
	for _, r := range listed {
		if r.Dst == nil || r.Gw == nil {
			continue
		}
		ip, _ := netip.AddrFromSlice(r.Dst.IP.To4())
		ones, _ := r.Dst.Mask.Size()
		dst := netip.PrefixFrom(ip, ones)
		hop, _ := netip.AddrFromSlice(r.Gw.To4())
		ours := r.Protocol == fib.Protocol
		if ours || dst == h.o.Cluster.Masked() || dst == h.o.Services.Masked() {
			out = append(out, table.Route{Dst: dst, NextHop: hop, Ours: ours})
		}
	}
	return out, nil
}

// Apply implements host.
func (h *linuxHost) Apply(ctx context.Context, c Change) error {
	if done, err := h.sw.apply(ctx, c); done {
		return err
	}
	switch c.Verb {
	case Prepare:
		return errors.Join(platform.StopChecksumOffload(c.Name), platform.DropIngress(c.Name))
	case Release:
		return platform.ReleaseSwitchPort(c.Name)
	case MoveAddress:
		return move(c)
	case Configure:
		return configure(c)
	case AddRoute:
		return netlink.RouteReplace(h.route(c))
	case DeleteRoute:
		if err := netlink.RouteDel(h.route(c)); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		return nil
	}
	return errors.ErrUnsupported
}

func (h *linuxHost) route(c Change) *netlink.Route {
	return &netlink.Route{Dst: platform.IPNet(c.Dst), Gw: c.Via.AsSlice(), Protocol: fib.Protocol}
}

// move gives an interface addresses and routes, and takes the addresses from another one, which may be gone already.
func move(c Change) error {
	if err := platform.LinkUp(c.Name); err != nil {
		return err
	}
	for _, a := range c.Addrs {
		if err := platform.SetAddress(c.Name, a); err != nil {
			return err
		}
	}
	to, err := netlink.LinkByName(c.Name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", c.Name, err)
	}
	for _, r := range onLinkFirst(c.Routes) {
		if err := netlink.RouteReplace(routeThrough(to, r)); err != nil {
			return fmt.Errorf("route %s through %s: %w", r, c.Name, err)
		}
	}

	from, err := netlink.LinkByName(c.From)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("interface %s: %w", c.From, err)
	}
	for _, a := range c.Addrs {
		err := netlink.AddrDel(from, &netlink.Addr{IPNet: platform.IPNet(a)})
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("taking %s from %s: %w", a, c.From, err)
		}
	}
	return nil
}

// onLinkFirst puts routes without a next hop first: the next hops of others can be behind them.
func onLinkFirst(routes []HostRoute) []HostRoute {
	return slices.SortedStableFunc(slices.Values(routes), func(a, b HostRoute) int {
		switch {
		case a.Via.IsValid() == b.Via.IsValid():
			return 0
		case a.Via.IsValid():
			return 1
		}
		return -1
	})
}

func routeThrough(link netlink.Link, r HostRoute) *netlink.Route {
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: platform.IPNet(r.Dst), Priority: r.Metric,
		Protocol: netlink.RouteProtocol(r.Protocol), Scope: netlink.SCOPE_LINK}
	if r.Via.IsValid() {
		route.Gw = r.Via.AsSlice()
		route.Scope = netlink.SCOPE_UNIVERSE
	}
	if r.OnLink {
		route.Flags = unix.RTNH_F_ONLINK
	}
	return route
}

// configure makes the node's own interface right.
func configure(c Change) error {
	if err := platform.ConfigureLink(c.Name, c.MAC, c.MTU); err != nil {
		return err
	}
	link, err := netlink.LinkByName(c.Name)
	if err != nil {
		return err
	}
	addrs, err := netlink.AddrList(link, unix.AF_INET)
	if err != nil {
		return err
	}

	for _, a := range addrs {
		ip, _ := netip.AddrFromSlice(a.IP.To4())
		ones, _ := a.Mask.Size()
		if !slices.Contains(c.Addrs, netip.PrefixFrom(ip, ones)) {
			if err := netlink.AddrDel(link, &a); err != nil {
				return err
			}
		}
	}
	for _, a := range c.Addrs {
		if err := platform.SetAddress(c.Name, a); err != nil {
			return err
		}
	}
	return platform.LinkUp(c.Name)
}

// Watch implements host.
func (h *linuxHost) Watch(ctx context.Context, changed func()) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- fib.Watch(ctx, "", nil, changed) }()
	go func() { ended <- h.sw.watch(ctx, changed) }()
	return <-ended
}

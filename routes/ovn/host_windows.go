package ovn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/fib"
	"porthole.dev/porthole/routes/table"
)

// windowsHost is a Windows node: the adapters of the host's compartment, through the IP helper API.
type windowsHost struct {
	o  Options
	sw *vswitch
}

// NewHost returns this host, and an error if the switch extension is not there: then nothing is to be changed.
func NewHost(o Options) (host, error) {
	if o.Uplink != "" {
		return nil,
			errors.New("--ovn-uplink is for Linux: on Windows the installation of Open vSwitch joins the card to br-ex")
	}
	if err := checkDriver(readDriver()); err != nil {
		return nil, err
	}
	return &windowsHost{o: o, sw: &vswitch{address: o.Database}}, nil
}

func adapters() ([]*winipcfg.IPAdapterAddresses, error) {
	all, err := winipcfg.GetAdaptersAddresses(windows.AF_INET,
		winipcfg.GAAFlagSkipAnycast|winipcfg.GAAFlagSkipMulticast|winipcfg.GAAFlagSkipDNSServer)
	if err != nil {
		return nil, fmt.Errorf("listing the adapters of this host: %w", err)
	}
	return all, nil
}

// Observe implements host.
func (h *windowsHost) Observe(ctx context.Context) (Seen, error) {
	seen, err := h.sw.observe(ctx)
	if err != nil {
		return seen, err
	}
	all, err := adapters()
	if err != nil {
		return seen, err
	}
	for _, a := range all {
		link := Link{Up: a.OperStatus == winipcfg.IfOperStatusUp, MAC: net.HardwareAddr(a.PhysicalAddress()).String(),
			MTU: int(a.MTU)}
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			addr, ok := netip.AddrFromSlice(u.Address.IP())
			if !ok {
				continue
			}
			link.Addrs = append(link.Addrs, netip.PrefixFrom(addr.Unmap(), int(u.OnLinkPrefixLength)))
			seen.Addrs[addr.Unmap()] = int(a.MTU)
		}
		if a.FriendlyName() == NodeLink(h.o.Node) {
			seen.Links[a.FriendlyName()] = link
		}
	}

	self := seen.Links[NodeLink(h.o.Node)]
	if len(self.Addrs) == 0 {
		return seen, nil // no routes of ours without the adapter
	}
	for _, dst := range []netip.Prefix{h.o.Cluster, h.o.Services} {
		routes, err := h.fib(self.Addrs[0].Addr(), dst)
		if err != nil {
			return seen, err
		}
		seen.Routes = append(seen.Routes, routes...)
	}
	return seen, nil
}

// fib returns the routes to dst itself. Longer ones are those of the adapter.
func (h *windowsHost) fib(self netip.Addr, dst netip.Prefix) ([]table.Route, error) {
	t, err := fib.New(self, dst)
	if err != nil {
		return nil, err
	}
	routes, _, err := t.List()
	return slices.DeleteFunc(routes, func(r table.Route) bool { return r.Dst != dst.Masked() }), err
}

// Apply implements host.
func (h *windowsHost) Apply(ctx context.Context, c Change) error {
	if done, err := h.sw.apply(ctx, c); done {
		return err
	}
	switch c.Verb {
	case Configure:
		return configure(c)
	case AddRoute, DeleteRoute:
		self, err := h.self()
		if err != nil {
			return err
		}
		t, err := fib.New(self, c.Dst)
		if err != nil {
			return err
		}
		if c.Verb == AddRoute {
			return t.Add(c.Dst, c.Via)
		}
		return t.Delete(c.Dst, c.Via)
	}
	return errors.ErrUnsupported
}

// self returns the address of the node's own adapter. It cannot be computed from the next hop of a route, because that
// of a route that is to be deleted may be in an earlier pod range of the node.
func (h *windowsHost) self() (netip.Addr, error) {
	all, err := adapters()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range all {
		if a.FriendlyName() != NodeLink(h.o.Node) || a.FirstUnicastAddress == nil {
			continue
		}
		if addr, ok := netip.AddrFromSlice(a.FirstUnicastAddress.Address.IP()); ok {
			return addr.Unmap(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("adapter %s has no address", NodeLink(h.o.Node))
}

// configure gives the node's own adapter its address and MTU. Open vSwitch gave it the hardware address.
func configure(c Change) error {
	all, err := adapters()
	if err != nil {
		return err
	}
	for _, a := range all {
		if a.FriendlyName() != c.Name {
			continue
		}
		for _, addr := range c.Addrs {
			if err := a.LUID.AddIPAddress(addr); err != nil && !errors.Is(err, windows.ERROR_OBJECT_ALREADY_EXISTS) {
				return fmt.Errorf("address %s: %w", addr, err)
			}
		}
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			addr, ok := netip.AddrFromSlice(u.Address.IP())
			if at := netip.PrefixFrom(addr.Unmap(), int(u.OnLinkPrefixLength)); ok && !slices.Contains(c.Addrs, at) {
				if err := a.LUID.DeleteIPAddress(at); err != nil && !errors.Is(err, windows.ERROR_NOT_FOUND) {
					return fmt.Errorf("taking address %s away: %w", at, err)
				}
			}
		}

		if int(a.MTU) == c.MTU {
			return nil
		}
		settings, err := a.LUID.IPInterface(windows.AF_INET)
		if err != nil {
			return fmt.Errorf("reading its settings: %w", err)
		}
		settings.NLMTU = uint32(c.MTU)
		return settings.Set()
	}
	return fmt.Errorf("no adapter has the name %s", c.Name)
}

// Watch implements host.
func (h *windowsHost) Watch(ctx context.Context, changed func()) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	go func() {
		ended <- platform.WatchIP(ctx, changed, platform.RouteChange, platform.AddressChange, platform.AdapterChange)
	}()
	go func() { ended <- h.sw.watch(ctx, changed) }()
	return <-ended
}

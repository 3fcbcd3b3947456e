package links

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
	"porthole.dev/porthole/internal/platform"
)

// Observe reads what the kernel holds of ours, but for the rules. want tells where to look for the guests' ends of
// ports; a namespace of our own name that is neither wanted nor made by us (made: name -> id) is not seen, because it
// may belong to another host of this machine.
func (d *Host) Observe(ctx context.Context, want kernel.State, made map[string]string) (kernel.State, error) {
	have := kernel.NewState()
	for name, id := range want.Namespaces {
		if platform.NetnsExists(name) {
			have.Namespaces[name] = id
		}
	}

	for name, id := range made {
		if platform.NetnsExists(name) {
			have.Namespaces[name] = id
		}
	}

	links, err := d.h.LinkList()
	if err != nil {
		return have, fmt.Errorf("listing links: %w", err)
	}
	for _, link := range links {
		name := link.Attrs().Name
		switch {
		case link.Type() == "bridge" && strings.HasPrefix(name, "hnsb"):
			if have.Bridges[name], err = d.observeBridge(link, want.Bridges[name]); err != nil {
				return have, fmt.Errorf("reading bridge %s: %w", name, err)
			}
		case link.Type() == "veth" && strings.HasPrefix(name, "hnsv"):
			have.Ports[name] = observePort(d.h, link, want.Ports[name])
		case strings.HasPrefix(name, kernel.CardPrefix):
			observeSwitch(d.h, link, want, &have)
		case link.Type() == "vxlan" && strings.HasPrefix(name, "hnsx"):
			if err := d.observeTunnel(ctx, link, want, &have); err != nil {
				return have, err
			}
		}
	}

	return have, d.observeKeeps(want, &have)
}

func (d *Host) observeBridge(link netlink.Link, want kernel.Bridge) (kernel.Bridge, error) {
	b := kernel.Bridge{ID: want.ID, Name: link.Attrs().Name, MTU: link.Attrs().MTU, Six: want.Six,
		Switched: want.Switched, Default: want.Default}
	addrs, err := d.h.AddrList(link, unix.AF_UNSPEC)
	if err != nil {
		return b, err
	}
	b.Addrs = rtnl.Prefixes(addrs)
	err = d.h.Within(func() error { return sysctls(bridgeSettings(b), false) })
	if err != nil && !errors.Is(err, errSetting) {
		return b, err
	}
	b.Settings = err == nil && link.Attrs().Flags&unix.IFF_UP != 0
	return b, nil
}

// observePort reads the port as far as it is where it should be; anything else comes back as a port that differs.
func observePort(host *rtnl.Handle, link netlink.Link, want kernel.Port) kernel.Port {
	p := kernel.Port{ID: want.ID, Name: link.Attrs().Name, Netns: "?"}
	info, err := host.LinkGetProtinfo(link)
	isolated := err == nil && info.Isolated != want.Open && link.Attrs().Flags&unix.IFF_UP != 0
	if want.Extension != "" && link.Attrs().MasterIndex == 0 && slices.Contains(link.Attrs().AltNames, want.Extension) {
		p.Extension, p.Open, isolated = want.Extension, want.Open, link.Attrs().Flags&unix.IFF_UP != 0
	}
	if br, err := host.LinkByIndex(link.Attrs().MasterIndex); err == nil {
		p.Bridge = br.Attrs().Name
	}
	if want.Netns == "" {
		return p
	}
	h, err := rtnl.Open(want.Netns, unix.NETLINK_ROUTE)
	if err != nil {
		return p
	}
	defer h.Close()
	eth, err := h.LinkByName(want.Guest)
	if err != nil || eth.Attrs().Index != link.Attrs().ParentIndex || eth.Attrs().ParentIndex != link.Attrs().Index {
		return p
	}

	addrs, err := h.AddrList(eth, unix.AF_UNSPEC)
	if err != nil {
		return p
	}
	p.Netns, p.Guest, p.MAC, p.MTU = want.Netns, want.Guest, eth.Attrs().HardwareAddr.String(), eth.Attrs().MTU
	p.Addrs = slices.Clone(want.Addrs)
	if !sameSet(rtnl.Prefixes(addrs), want.Addrs) {
		p.Addrs = rtnl.Prefixes(addrs)
	}
	p.Up = isolated && eth.Attrs().Flags&unix.IFF_UP != 0
	p.Gateway, p.Gateway6, p.Open = want.Gateway, want.Gateway6, want.Open
	if want.Guest == "eth0" {
		p.Gateway = defaultGateway(h, eth, unix.AF_INET)
		if want.Gateway6.IsValid() {
			p.Gateway6 = defaultGateway(h, eth, unix.AF_INET6)
		}
	}
	return p
}

// defaultGateway returns the gateway of the interface's default route in one family. It returns the zero address if
// there is none or the routes cannot be read; the next plan then sets it again.
func defaultGateway(h *rtnl.Handle, eth netlink.Link, family int) netip.Addr {
	routes, err := h.RouteList(eth, family)
	if err != nil {
		return netip.Addr{}
	}
	for _, r := range routes {
		if ones := 0; r.Gw != nil {
			if r.Dst != nil {
				ones, _ = r.Dst.Mask.Size()
			}
			if gw, ok := netip.AddrFromSlice(r.Gw); ok && ones == 0 {
				return gw.Unmap()
			}
		}
	}
	return netip.Addr{}
}

func sameSet(a, b []netip.Prefix) bool {
	if len(a) != len(b) {
		return false
	}
	for _, p := range a {
		if !slices.Contains(b, p) {
			return false
		}
	}
	return true
}

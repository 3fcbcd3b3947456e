package render

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rules"
	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

const vxlanOverhead = 50 // outer Ethernet, IP, UDP and VXLAN headers

// overlays renders Overlay networks into the state. Pods sit behind a bridge as in an L2Bridge network; each
// VSID has a vxlan device beside the bridge, and the host routes between the two, so that one connection table sees
// both directions of everything:
//
//	pod ─ veth ─ hnsb… .1 ── routing, nft ── hnsx… (VNI = VSID, MAC = DrMacAddress) ══ UDP 4789 ══▶ other hosts
//
// A remote subnet is a route through the device, a neighbour (the subnet's first address has the remote router's MAC)
// and a forwarding entry (that MAC is at the remote provider address): the trio that a Linux flannel peer has too.
//
// A remote endpoint with a provider address of its own is a path to one address, with the endpoint's own MAC. So a
// subnet can be on several hosts at once. Frames to the MAC of an endpoint of this host are taken in if they carry its
// address (arrivals); the kernel would take only those to the device's own.
type overlays struct {
	host  *rules.Host
	state *kernel.State
}

// network renders the tunnels of an Overlay network and the ways to its remote subnets.
func (o overlays) network(n *desired.Network) {
	for _, s := range n.Subnets {
		if s.VSID == 0 || !s.Prefix.Addr().Is4() {
			continue
		}
		t := kernel.Tunnel{ID: n.ID, Name: kernel.TunnelName(n.ID, s.VSID), MAC: n.RouterMAC, Local: n.Provider,
			VNI: s.VSID, Port: n.VxlanPort, MTU: o.host.Facts.MTU - vxlanOverhead, Up: true}
		if t.MAC == "" {
			t.MAC = kernel.DerivedMAC(t.Name)
		}
		if !t.Local.Is4() {
			t.Local = o.host.Facts.Node
		}
		if t.Port == 0 {
			t.Port = kernel.VXLANPort
		}
		o.state.Tunnels[t.Name] = t
	}
	for _, s := range n.RemoteSubnets {
		name := kernel.TunnelName(n.ID, s.VSID)
		if _, ok := o.state.Tunnels[name]; ok && s.Prefix.Addr().Is4() && s.Provider.Is4() && s.MAC != "" {
			o.path(kernel.Path{ID: n.ID, Tunnel: name, MAC: s.MAC, Prefix: s.Prefix.Masked()}, s.Provider)
		}
	}
}

func (o overlays) path(p kernel.Path, provider netip.Addr) {
	peer := kernel.Peer{ID: p.ID, Tunnel: p.Tunnel, MAC: p.MAC, Provider: provider}
	if other, taken := o.state.Peers[peer.Key()]; taken && other.Provider != provider {
		o.host.Rejected[p.ID] = fmt.Errorf("leading %s to %s: %s is at %s already", p.Prefix, provider, p.MAC,
			other.Provider)
		return
	}
	o.state.Peers[peer.Key()], o.state.Paths[p.Key()] = peer, p
}

// remote renders the way to a remote endpoint with a provider address of its own. Where a remote subnet says
// the same, that is the way; an address outside the overlay (a node's, or a service's that the proxy holds as an
// endpoint) needs none, nor does one that is said to be on this very host.
func (o overlays) remote(e *desired.Endpoint) {
	if p, provider, ok := o.way(e); ok {
		o.path(p, provider)
	}
}

// way is the path to a remote endpoint, if it has one of its own.
func (o overlays) way(e *desired.Endpoint) (p kernel.Path, provider netip.Addr, own bool) {
	n, ok := o.host.Networks[e.Network]
	addr := table.IPv4.First(e.Addrs)
	if !ok || !e.Remote || n.Type != overlayType || !e.Provider.Is4() || !addr.IsValid() || e.MAC == "" ||
		e.Provider == n.Provider || e.Provider == o.host.Facts.Node {
		return p, provider, false
	}
	vsid := uint32(0)
	for _, s := range n.Subnets {
		if s.Prefix.Contains(addr) {
			vsid = s.VSID
		}
	}
	for _, s := range n.RemoteSubnets {
		if s.Prefix.Contains(addr) {
			if s.Provider == e.Provider {
				return p, provider, false
			}
			vsid = s.VSID
		}
	}
	name := kernel.TunnelName(n.ID, vsid)
	_, own = o.state.Tunnels[name]
	return kernel.Path{ID: e.ID, Tunnel: name, MAC: e.MAC, Prefix: netip.PrefixFrom(addr, 32)}, e.Provider, own
}

// arrival returns by which device frames of other hosts to an endpoint's own MAC come in. ok is false for an endpoint
// without such frames: it is remote, not in an overlay, or in a subnet without a tunnel.
func (o overlays) arrival(e *desired.Endpoint) (a kernel.Arrival, ok bool) {
	n, addr := o.host.Networks[e.Network], table.IPv4.First(e.Addrs)
	if n == nil || n.Type != overlayType || e.Remote || e.MAC == "" || !addr.IsValid() {
		return a, false
	}
	for _, s := range n.Subnets {
		if s.VSID != 0 && s.Prefix.Contains(addr) {
			a = kernel.Arrival{ID: e.ID, Tunnel: kernel.TunnelName(n.ID, s.VSID), MAC: e.MAC, Addr: addr}
		}
	}
	_, ok = o.state.Tunnels[a.Tunnel]
	return a, ok
}

// fences are the rules that keep an overlay to itself: nothing passes between it and other networks of ours, and the
// host's own programs reach it only with a HostRoute policy, or through a load balancer. Into a NAT network
// connections from elsewhere come through a port mapping or a load balancer only.
func (o overlays) fences() (f rules.Fences) {
	for _, id := range slices.Sorted(maps.Keys(o.host.Networks)) {
		n := o.host.Networks[id]
		if n.Type == natType {
			link := fmt.Sprintf("%q", kernel.BridgeName(id))
			f.Forward = append(f.Forward,
				fmt.Sprintf("oifname %s iifname != %s ct state new ct status & dnat == 0 drop", link, link))
		}
		if n.Type != overlayType {
			continue
		}

		own := []string{fmt.Sprintf("%q", kernel.BridgeName(id))}
		for _, name := range slices.Sorted(maps.Keys(o.state.Tunnels)) {
			if o.state.Tunnels[name].ID == id {
				own = append(own, fmt.Sprintf("%q", name))
			}
		}
		slices.Sort(own)
		links := "{ " + strings.Join(own, ", ") + " }"
		f.Forward = append(f.Forward, fmt.Sprintf(`iifname %s oifname "hns*" oifname != %s drop`, links, links),
			fmt.Sprintf(`oifname %s iifname "hns*" iifname != %s drop`, links, links))
		if !n.HostRoute {
			f.Output = append(f.Output, fmt.Sprintf("oifname %s ct state new ct status & dnat == 0 drop", links))
		}
	}
	return f
}

package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/desired"
)

// Overlay networks. Pods sit behind a bridge as in an L2Bridge network; each VSID has a vxlan device beside the bridge,
// and the host routes between the two, so that one connection table sees both directions of everything:
//
//	pod ─ veth ─ hnsb… .1 ── routing, nft ── hnsx… (VNI = VSID, MAC = DrMacAddress) ══ UDP 4789 ══▶ other hosts
//
// A remote subnet is a route through the device, a neighbour (the subnet's first address has the remote router's MAC)
// and a forwarding entry (that MAC is at the remote provider address): the trio that a Linux flannel peer has too.
//
// A remote endpoint with a provider address of its own is a path to one address, with the endpoint's own MAC. So a
// subnet can be on several hosts at once. Frames to the MAC of an endpoint of this host are taken in if they carry its
// address (arrivals); the kernel would take only those to the device's own.
const (
	vxlanPort     = 4789 // the only port that flannel allows with Windows
	vxlanOverhead = 50   // outer Ethernet, IP, UDP and VXLAN headers
)

// overlay renders the tunnels of an Overlay network and the ways to its remote subnets.
func (r *renderer) overlay(n *desired.Network) {
	for _, s := range n.Subnets {
		if s.VSID == 0 || !s.Prefix.Addr().Is4() {
			continue
		}
		t := Tunnel{ID: n.ID, Name: tunnelName(n.ID, s.VSID), MAC: n.RouterMAC, Local: n.Provider, VNI: s.VSID,
			Port: n.VxlanPort,
			MTU:  r.facts.MTU - vxlanOverhead, Up: true}
		if t.MAC == "" {
			t.MAC = derivedMAC(t.Name)
		}
		if !t.Local.Is4() {
			t.Local = r.facts.Node
		}
		if t.Port == 0 {
			t.Port = vxlanPort
		}
		r.state.Tunnels[t.Name] = t
	}
	for _, s := range n.RemoteSubnets {
		if _, ok := r.state.Tunnels[tunnelName(n.ID, s.VSID)]; ok && s.Prefix.Addr().Is4() && s.Provider.Is4() &&
			s.MAC != "" {
			r.path(Path{ID: n.ID, Tunnel: tunnelName(n.ID, s.VSID), MAC: s.MAC, Prefix: s.Prefix.Masked()}, s.Provider)
		}
	}
}

func (r *renderer) path(p Path, provider netip.Addr) {
	peer := Peer{ID: p.ID, Tunnel: p.Tunnel, MAC: p.MAC, Provider: provider}
	if other, taken := r.state.Peers[peer.key()]; taken && other.Provider != provider {
		r.state.Rejected[p.ID] = fmt.Errorf("leading %s to %s: %s is at %s already", p.Prefix, provider, p.MAC,
			other.Provider)
		return
	}
	r.state.Peers[peer.key()], r.state.Paths[p.key()] = peer, p
}

// remoteEndpoint renders the way to a remote endpoint with a provider address of its own. Where a remote subnet says
// the same, that is the way; an address outside the overlay (a node's, or a service's that the proxy holds as an
// endpoint) needs none, nor does one that is said to be on this very host.
func (r *renderer) remoteEndpoint(e *desired.Endpoint) {
	if p, provider, ok := r.way(e); ok {
		r.path(p, provider)
	}
}

// way is the path to a remote endpoint, if it has one of its own.
func (r *renderer) way(e *desired.Endpoint) (p Path, provider netip.Addr, own bool) {
	n, ok := r.networks[e.Network]
	addr := ip4.addressOf(e)
	if !ok || !e.Remote || n.Type != overlayType || !e.Provider.Is4() || !addr.IsValid() || e.MAC == "" ||
		e.Provider == n.Provider || e.Provider == r.facts.Node {
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
	name := tunnelName(n.ID, vsid)
	_, own = r.state.Tunnels[name]
	return Path{ID: e.ID, Tunnel: name, MAC: e.MAC, Prefix: netip.PrefixFrom(addr, 32)}, e.Provider, own
}

// arrival returns by which device frames of other hosts to an endpoint's own MAC come in. ok is false for an endpoint
// without such frames: it is remote, not in an overlay, or in a subnet without a tunnel.
func arrival(r *renderer, e *desired.Endpoint) (a Arrival, ok bool) {
	n, addr := r.networks[e.Network], ip4.addressOf(e)
	if n == nil || n.Type != overlayType || e.Remote || e.MAC == "" || !addr.IsValid() {
		return a, false
	}
	for _, s := range n.Subnets {
		if s.VSID != 0 && s.Prefix.Contains(addr) {
			a = Arrival{ID: e.ID, Tunnel: tunnelName(n.ID, s.VSID), MAC: e.MAC, Addr: addr}
		}
	}
	_, ok = r.state.Tunnels[a.Tunnel]
	return a, ok
}

// fences are the rules that keep an overlay to itself: nothing passes between it and other networks of ours, and the
// host's own programs reach it only with a HostRoute policy, or through a load balancer. Into a NAT network
// connections from elsewhere come through a port mapping or a load balancer only.
func (r *renderer) fences() (forward, output []string) {
	for _, id := range sortedKeys(r.networks) {
		n := r.networks[id]
		if n.Type == natType {
			link := fmt.Sprintf("%q", bridgeName(id))
			forward = append(forward,
				fmt.Sprintf("oifname %s iifname != %s ct state new ct status & dnat == 0 drop", link, link))
		}
		if n.Type != overlayType {
			continue
		}

		own := []string{fmt.Sprintf("%q", bridgeName(id))}
		for _, name := range sortedKeys(r.state.Tunnels) {
			if r.state.Tunnels[name].ID == id {
				own = append(own, fmt.Sprintf("%q", name))
			}
		}
		slices.Sort(own)
		links := "{ " + strings.Join(own, ", ") + " }"
		forward = append(forward, fmt.Sprintf(`iifname %s oifname "hns*" oifname != %s drop`, links, links),
			fmt.Sprintf(`oifname %s iifname "hns*" iifname != %s drop`, links, links))
		if !n.HostRoute {
			output = append(output, fmt.Sprintf("oifname %s ct state new ct status & dnat == 0 drop", links))
		}
	}
	return forward, output
}

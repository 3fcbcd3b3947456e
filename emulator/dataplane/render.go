package dataplane

import (
	"fmt"
	"net/netip"
	"slices"

	"porthole.dev/porthole/emulator/desired"
)

// Render says what the kernel should hold for d. It is pure, and the same input gives the same state.
func Render(d desired.State, f Facts) State { return render(d, f).state }

// render keeps what later small changes build on.
func render(d desired.State, f Facts) *renderer {
	r := newRenderer(f)
	for i := range d.Networks {
		switch n := &d.Networks[i]; n.Type {
		case l2BridgeType, overlayType, natType:
			r.network(n)
		case transparentType:
			renderTransparent(r, n)
		}
	}

	for i := range d.Namespaces {
		r.namespace(&d.Namespaces[i])
	}
	for i := range d.Endpoints {
		kept := d.Endpoints[i] // the caller may change its own
		r.endpoints[kept.ID] = &kept
	}

	if len(r.networks)+len(d.LoadBalancers) == 0 {
		return r // no table either
	}
	for _, n := range r.networks {
		if sixIn(n) && r.six == nil {
			r.six = r.twin()
		}
	}

	for _, x := range r.families() {
		x.baseRules()
	}
	guests := map[string]int{}
	for i := range d.Endpoints {
		r.endpoint(&d.Endpoints[i], guests)
	}
	for i := range d.LoadBalancers {
		r.balance(&d.LoadBalancers[i])
	}
	r.bridgeAddrs(d)
	if r.six != nil {
		r.state.Rules6 = r.six.state.Rules
	}
	return r
}

// network renders the bridge of a network, and the tunnel of an overlay network. It rejects a network that the one
// routing table of the host cannot carry beside what is there.
func (r *renderer) network(n *desired.Network) {
	for _, s := range n.Subnets {
		if s.Prefix.Contains(r.facts.Node) || r.facts.Node6.IsValid() && s.Prefix.Contains(r.facts.Node6) {
			// The bridge would take the node's own segment away from its uplink.
			r.state.Rejected[n.ID] = fmt.Errorf("carrying network %s: its subnet %s contains the node's address %s",
				n.ID, s.Prefix, r.facts.Node)
			return
		}
		for _, o := range r.networks {
			if o.Type == transparentType {
				continue
			}
			if slices.ContainsFunc(o.Subnets, func(t desired.Subnet) bool { return t.Prefix.Overlaps(s.Prefix) }) &&
				(n.Type == overlayType || o.Type == overlayType) {
				// The host routes for all of them and has one table.
				r.state.Rejected[n.ID] = fmt.Errorf("carrying network %s: its subnet %s is also in network %s", n.ID,
					s.Prefix, o.ID)
				return
			}
		}
	}

	r.networks[n.ID] = n
	b := Bridge{ID: n.ID, Name: bridgeName(n.ID), MTU: r.facts.MTU, Six: sixIn(n),
		Switched: n.Type == overlayType || n.Type == natType, Settings: true}
	if n.Type == overlayType {
		b.MTU -= vxlanOverhead
		r.overlay(n)
	}
	r.state.Bridges[b.Name] = b
}

func (r *renderer) namespace(n *desired.Namespace) {
	r.namespaces[n.ID] = n
	if !n.Host && n.Path == "" {
		r.state.Namespaces[OwnNetns(n.ID)] = n.ID
	}
}

// endpoint renders the port, if the endpoint has one, and the policies.
func (r *renderer) endpoint(e *desired.Endpoint, guests map[string]int) {
	network, ok := r.networks[e.Network]
	if e.Remote {
		r.remoteEndpoint(e)
		return
	}
	if a, arrives := arrival(r, e); arrives {
		r.state.Arrivals[a.key()] = a
	}
	if !ok || e.Namespace == "" {
		return
	}
	ns, ok := r.namespaces[e.Namespace]
	if !ok {
		r.state.Rejected[e.ID] = fmt.Errorf("attaching endpoint %s: namespace %s does not exist", e.ID, e.Namespace)
		return
	}
	if ns.Host {
		return // its address goes to the bridge
	}
	addrs := guestAddrs(e, network)
	if len(addrs) == 0 && network.Type != transparentType {
		r.state.Rejected[e.ID] = fmt.Errorf("attaching endpoint %s: it has no address that is carried", e.ID)
		return
	}
	p := Port{ID: e.ID, Name: portName(e.ID), Bridge: bridgeName(network.ID), Netns: ns.Path, MAC: e.MAC, MTU: e.MTU,
		Guest: fmt.Sprintf("eth%d", guests[ns.ID]), Addrs: addrs, Gateway: e.Gateway, Up: true}
	guests[ns.ID]++
	if p.Netns == "" {
		p.Netns = r.facts.NetnsDir + "/" + OwnNetns(ns.ID)
	}
	if p.MAC == "" {
		p.MAC = derivedMAC(e.ID)
	}
	if network.Type == transparentType {
		r.state.Ports[p.Name] = segmentPort(p, e, network, r.facts)
		return
	}
	if mtu := r.state.Bridges[p.Bridge].MTU; p.MTU == 0 || network.Type == overlayType {
		p.MTU = mtu
	}
	if a := ip4.addressOf(e); a.IsValid() && !ip4.usable(p.Gateway) {
		p.Gateway = gatewayOf(network, a)
	}
	if a := ip6.addressOf(e); sixIn(network) && a.IsValid() {
		if p.Gateway6 = e.Gateway6; !ip6.usable(p.Gateway6) {
			p.Gateway6 = gatewayOf(network, a)
		}
	}

	r.state.Ports[p.Name] = p
	for _, x := range r.families() {
		if a := x.fam.addressOf(e); a.IsValid() {
			x.policies(withNAT(e, network), a)
		}
	}
}

// bridgeAddrs gives each bridge the host endpoints' addresses, the network's gateway, and every gateway that a pod's
// endpoint was told to use (win-bridge says .2) unless a guest owns that address. On Windows nobody has the IPv4
// gateway of an L2Bridge network, so it is left out once the bridge has the address of a host endpoint. A host
// endpoint may bring a default route.
func (r *renderer) bridgeAddrs(d desired.State) {
	guests := map[netip.Addr]bool{}
	for _, p := range r.state.Ports {
		for _, a := range p.Addrs {
			guests[a.Addr()] = true
		}
	}

	add := func(n *desired.Network, addr netip.Addr) {
		b := r.state.Bridges[bridgeName(n.ID)]
		for _, s := range n.Subnets {
			p := netip.PrefixFrom(addr, s.Prefix.Bits())
			if (addr.Is4() || b.Six) && s.Prefix.Contains(addr) && !guests[addr] && !slices.Contains(b.Addrs, p) {
				b.Addrs = append(b.Addrs, p)
			}
		}
		slices.SortFunc(b.Addrs, func(x, y netip.Prefix) int { return x.Addr().Compare(y.Addr()) })
		r.state.Bridges[b.Name] = b
	}

	hosted := map[string]bool{} // L2Bridge networks with a host endpoint
	for i := range d.Endpoints {
		e := &d.Endpoints[i]
		n, ok := r.networks[e.Network]
		if !ok || e.Remote || e.Namespace == "" || n.Type == transparentType {
			continue
		}
		ns := r.namespaces[e.Namespace]
		if ns == nil || !ns.Host {
			add(n, e.Gateway)
			add(n, e.Gateway6)
			continue
		}
		for _, a := range e.Addrs {
			add(n, a.Addr())
		}
		if n.Type == l2BridgeType && ip4.addressOf(e).IsValid() {
			hosted[n.ID] = true
			b := r.state.Bridges[bridgeName(n.ID)]
			b.Default = e.Gateway
			r.state.Bridges[b.Name] = b
		}
	}

	for _, n := range r.networks {
		for _, s := range n.Subnets {
			if n.Type == transparentType {
				continue
			}
			if !hosted[n.ID] || s.Prefix.Addr().Is6() {
				add(n, gatewayOf(n, s.Prefix.Addr()))
			}
		}
	}
}

// guestAddrs are the endpoint's addresses as far as the network carries their family, with the subnet's length where
// the endpoint has none.
func guestAddrs(e *desired.Endpoint, n *desired.Network) []netip.Prefix {
	var addrs []netip.Prefix
	for _, a := range e.Addrs {
		if !a.Addr().Is4() && !sixIn(n) {
			continue
		}
		bits := a.Bits()
		for _, s := range n.Subnets {
			if s.Prefix.Contains(a.Addr()) && (bits <= 0 || bits == a.Addr().BitLen()) {
				bits = s.Prefix.Bits()
			}
		}
		addrs = append(addrs, netip.PrefixFrom(a.Addr(), bits))
	}
	return addrs
}

// gatewayOf is the network's gateway for addr: the subnet's own word, else its first address.
func gatewayOf(n *desired.Network, addr netip.Addr) netip.Addr {
	for _, s := range n.Subnets {
		if !s.Prefix.Contains(addr) {
			continue
		}
		if s.Gateway.IsValid() && s.Prefix.Contains(s.Gateway) {
			return s.Gateway
		}
		return s.Prefix.Masked().Addr().Next()
	}
	return netip.Addr{}
}

// withNAT returns the endpoint with what its network does without a policy: in a NAT network all that leaves the host
// has the host's address.
func withNAT(e *desired.Endpoint, n *desired.Network) *desired.Endpoint {
	if n.Type != natType || len(e.OutboundNAT) > 0 {
		return e
	}
	own := *e
	own.OutboundNAT = []desired.OutboundNAT{{}}
	return &own
}

func prefixOfLength(a netip.Addr, bits int) netip.Prefix {
	if bits <= 0 {
		bits = a.BitLen()
	}
	return netip.PrefixFrom(a, bits)
}

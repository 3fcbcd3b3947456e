package render

import (
	"fmt"
	"net/netip"
	"slices"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rules"
	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

// State says what the kernel should hold for d. It is pure, and the same input gives the same state.
func State(d desired.State, f kernel.Facts) kernel.State { return All(d, f).State }

// All renders everything, and keeps what later small changes build on.
func All(d desired.State, f kernel.Facts) *Rendering {
	r := newRendering(f)
	for i := range d.Networks {
		switch n := &d.Networks[i]; n.Type {
		case l2Bridge, overlayType, natType:
			r.network(n)
		case Transparent:
			transparent(r.host, &r.State, n)
		}
	}

	for i := range d.Namespaces {
		r.namespace(&d.Namespaces[i])
	}
	for i := range d.Endpoints {
		kept := d.Endpoints[i] // the caller may change its own
		r.host.Endpoints[kept.ID] = &kept
	}
	if len(r.host.Networks)+len(d.LoadBalancers) > 0 { // else there is no table either
		r.tables(d)
	}
	return r
}

// tables renders the rules, and what depends on their families.
func (r *Rendering) tables(d desired.State) {
	for _, n := range r.host.Networks {
		if sixIn(n) && r.six == nil {
			r.six = rules.New(table.IPv6, r.host)
		}
	}

	for _, x := range r.Families() {
		x.Begin(r.overlays.fences())
	}
	guests := map[string]int{}
	for i := range d.Endpoints {
		r.endpoint(&d.Endpoints[i], guests)
	}
	for i := range d.LoadBalancers {
		r.balance(&d.LoadBalancers[i])
	}
	r.bridgeAddrs(d)
	r.State.Rules = r.four.Rules
	if r.six != nil {
		r.State.Rules6 = r.six.Rules
	}
}

// network renders the bridge of a network, and the tunnel of an overlay network. It rejects a network that the one
// routing table of the host cannot carry beside what is there.
func (r *Rendering) network(n *desired.Network) {
	node, node6 := r.host.Facts.Node, r.host.Facts.Node6
	for _, s := range n.Subnets {
		if s.Prefix.Contains(node) || node6.IsValid() && s.Prefix.Contains(node6) {
			// The bridge would take the node's own segment away from its uplink.
			r.host.Rejected[n.ID] = fmt.Errorf("carrying network %s: its subnet %s contains the node's address %s",
				n.ID, s.Prefix, node)
			return
		}
		for _, o := range r.host.Networks {
			if o.Type == Transparent {
				continue
			}
			if slices.ContainsFunc(o.Subnets, func(t desired.Subnet) bool { return t.Prefix.Overlaps(s.Prefix) }) &&
				(n.Type == overlayType || o.Type == overlayType) {
				// The host routes for all of them and has one table.
				r.host.Rejected[n.ID] = fmt.Errorf("carrying network %s: its subnet %s is also in network %s", n.ID,
					s.Prefix, o.ID)
				return
			}
		}
	}

	r.host.Networks[n.ID] = n
	b := kernel.Bridge{ID: n.ID, Name: kernel.BridgeName(n.ID), MTU: r.host.Facts.MTU, Six: sixIn(n),
		Switched: n.Type == overlayType || n.Type == natType, Settings: true}
	if n.Type == overlayType {
		b.MTU -= vxlanOverhead
		r.overlays.network(n)
	}
	r.State.Bridges[b.Name] = b
}

func (r *Rendering) namespace(n *desired.Namespace) {
	r.host.Namespaces[n.ID] = n
	if !n.Host && n.Path == "" {
		r.State.Namespaces[kernel.OwnNetns(n.ID)] = n.ID
	}
}

// endpoint renders the port, if the endpoint has one, and the policies.
func (r *Rendering) endpoint(e *desired.Endpoint, guests map[string]int) {
	network, ok := r.host.Networks[e.Network]
	if e.Remote {
		r.overlays.remote(e)
		return
	}
	if a, arrives := r.overlays.arrival(e); arrives {
		r.State.Arrivals[a.Key()] = a
	}
	if !ok || e.Namespace == "" {
		return
	}
	ns, ok := r.host.Namespaces[e.Namespace]
	if !ok {
		r.host.Rejected[e.ID] = fmt.Errorf("attaching endpoint %s: namespace %s does not exist", e.ID, e.Namespace)
		return
	}
	if ns.Host {
		return // its address goes to the bridge
	}
	addrs := guestAddrs(e, network)
	if len(addrs) == 0 && network.Type != Transparent {
		r.host.Rejected[e.ID] = fmt.Errorf("attaching endpoint %s: it has no address that is carried", e.ID)
		return
	}
	p := kernel.Port{ID: e.ID, Name: kernel.PortName(e.ID), Bridge: kernel.BridgeName(network.ID), Netns: ns.Path,
		MAC: e.MAC, MTU: e.MTU, Guest: fmt.Sprintf("eth%d", guests[ns.ID]), Addrs: addrs, Gateway: e.Gateway, Up: true}
	guests[ns.ID]++
	if p.Netns == "" {
		p.Netns = r.host.Facts.NetnsDir + "/" + kernel.OwnNetns(ns.ID)
	}
	if p.MAC == "" {
		p.MAC = kernel.DerivedMAC(e.ID)
	}
	if network.Type == Transparent {
		r.State.Ports[p.Name] = segmentPort(p, e, network, r.host.Facts)
		return
	}
	if mtu := r.State.Bridges[p.Bridge].MTU; p.MTU == 0 || network.Type == overlayType {
		p.MTU = mtu
	}
	if a := table.IPv4.First(e.Addrs); a.IsValid() && !table.IPv4.Usable(p.Gateway) {
		p.Gateway = gatewayOf(network, a)
	}
	if a := table.IPv6.First(e.Addrs); sixIn(network) && a.IsValid() {
		if p.Gateway6 = e.Gateway6; !table.IPv6.Usable(p.Gateway6) {
			p.Gateway6 = gatewayOf(network, a)
		}
	}

	r.State.Ports[p.Name] = p
	for _, x := range r.Families() {
		if a := x.Family.First(e.Addrs); a.IsValid() {
			x.Policies(WithNAT(e, network), a)
		}
	}
}

// bridgeAddrs gives each bridge the host endpoints' addresses, the network's gateway, and every gateway that a pod's
// endpoint was told to use (win-bridge says .2) unless a guest owns that address. On Windows nobody has the IPv4
// gateway of an L2Bridge network, so it is left out once the bridge has the address of a host endpoint. A host
// endpoint may bring a default route.
func (r *Rendering) bridgeAddrs(d desired.State) {
	guests := map[netip.Addr]bool{}
	for _, p := range r.State.Ports {
		for _, a := range p.Addrs {
			guests[a.Addr()] = true
		}
	}

	add := func(n *desired.Network, addr netip.Addr) {
		b := r.State.Bridges[kernel.BridgeName(n.ID)]
		for _, s := range n.Subnets {
			p := netip.PrefixFrom(addr, s.Prefix.Bits())
			if (addr.Is4() || b.Six) && s.Prefix.Contains(addr) && !guests[addr] && !slices.Contains(b.Addrs, p) {
				b.Addrs = append(b.Addrs, p)
			}
		}
		slices.SortFunc(b.Addrs, func(x, y netip.Prefix) int { return x.Addr().Compare(y.Addr()) })
		r.State.Bridges[b.Name] = b
	}

	hosted := map[string]bool{} // L2Bridge networks with a host endpoint
	for i := range d.Endpoints {
		e := &d.Endpoints[i]
		n, ok := r.host.Networks[e.Network]
		if !ok || e.Remote || e.Namespace == "" || n.Type == Transparent {
			continue
		}
		ns := r.host.Namespaces[e.Namespace]
		if ns == nil || !ns.Host {
			add(n, e.Gateway)
			add(n, e.Gateway6)
			continue
		}
		for _, a := range e.Addrs {
			add(n, a.Addr())
		}
		if n.Type == l2Bridge && table.IPv4.First(e.Addrs).IsValid() {
			hosted[n.ID] = true
			b := r.State.Bridges[kernel.BridgeName(n.ID)]
			b.Default = e.Gateway
			r.State.Bridges[b.Name] = b
		}
	}

	for _, n := range r.host.Networks {
		for _, s := range n.Subnets {
			if n.Type == Transparent {
				continue
			}
			if !hosted[n.ID] || s.Prefix.Addr().Is6() {
				add(n, gatewayOf(n, s.Prefix.Addr()))
			}
		}
	}
}

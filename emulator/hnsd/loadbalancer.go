package hnsd

import (
	"fmt"
	"net/netip"
	"slices"
)

const maxBackends = 1024

// checkLoadBalancer normalises and checks a load balancer, alone and against the others.
func (h *Host) checkLoadBalancer(n *State, o *Object) error {
	network, err := checkBackends(n, o.Doc)
	if err != nil {
		return err
	}
	b := readBalancer(o.ID, o.Doc)
	for _, vip := range b.vips {
		if _, err := netip.ParseAddr(vip); err != nil {
			return ErrAddressInvalid
		}
	}
	if b.ipv6 && (network != nil && network.kind == "Overlay" || !h.Profile.Version.AtLeast(11, 10)) {
		// Overlays carry none, older versions do not announce it; the code is unverified, no. 61.
		return ErrInvalidParameter
	}

	if err := checkSourceVIP(n, network, b.sourceVIP); err != nil {
		return err
	}
	// Conflicts are looked up in the index, without o itself, which may be a modification.
	for _, key := range b.frontends() {
		if n.anyHaving(frontendOf, key, o.ID) {
			return h.Profile.FrontendConflict
		}
	}
	for _, port := range b.hostPorts() {
		if h.Profile.OnePortOwner && n.anyHaving(hostPortTaken, port, o.ID) {
			return ErrPortAlreadyExists
		}
	}
	if err := checkNodePorts(n, b); err != nil {
		return err
	}
	if h.listenerTaken(b.vips, b.ports) {
		return ErrPortAlreadyExists
	}
	return h.checkPortBlocks(n, o.ID, b)
}

// checkBackends writes each endpoint once, by its canonical ID. It returns the network of the first one, nil if that is
// gone.
// An endpoint that is not there is an error here, while the list of an existing load balancer may
// name endpoints that went away later.
func checkBackends(n *State, d Doc) (network *networkDoc, err error) {
	backends := d.strs("HostComputeEndpoints")
	if len(backends) == 0 || len(backends) > maxBackends {
		return nil, ErrInvalidParameter
	}

	var ids []any
	seen := make(map[string]bool, len(backends))
	for _, b := range backends {
		id := canonicalID(b)
		e, ok := n.Get(Endpoint, id)
		if !ok {
			return nil, ErrEndpointNotFound
		}
		if o, ok := n.Get(Network, e.endpoint.network); ok && len(ids) == 0 {
			network = o.network
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	d.set("HostComputeEndpoints", ids)
	return network, nil
}

// PortBlock is how many ephemeral ports a load balancer without direct server return reserves
// (kubernetes/website#17930).
const PortBlock = 64

// PortBlocks is how many blocks are reserved.
func (s *State) PortBlocks() int { return s.blocks }

// checkPortBlocks refuses a load balancer for which no block is left (kubernetes/kubernetes#117783; the code is
// unverified, no. 62). One that has its block keeps it.
func (h *Host) checkPortBlocks(n *State, id string, b *balancerDoc) error {
	if h.PortBlocks == nil || !b.block {
		return nil
	}
	if old, ok := n.Get(LoadBalancer, id); ok && old.balancer.block {
		return nil
	}
	if n.PortBlocks() >= h.PortBlocks() {
		return ErrPortAlreadyExists
	}
	return nil
}

// listenerTaken reports whether a process of the host has a port that is wanted on the host's own addresses: a node
// port, or a frontend that is the node's address.
// An invalid address stands for all addresses of the host, for load balancers without a frontend
// address.
func (h *Host) listenerTaken(vips []string, ports []portDoc) bool {
	if !h.Profile.HostListeners || h.Listens == nil {
		return false
	}
	var addrs []netip.Addr
	for _, v := range vips {
		if v == h.NodeAddr {
			addrs = append(addrs, netip.MustParseAddr(v))
		}
	}
	if len(vips) == 0 {
		addrs = append(addrs, netip.Addr{})
	}
	for _, addr := range addrs {
		for _, p := range ports {
			if h.Listens(uint8(p.protocol), addr, uint16(p.external)) {
				return true
			}
		}
	}
	return false
}

// checkSourceVIP: an address of an overlay network must be a local endpoint's; addresses of no network of ours are
// taken as they are.
func checkSourceVIP(n *State, network *networkDoc, vip string) error {
	if vip == "" {
		return nil
	}
	addr, err := netip.ParseAddr(vip)
	if err != nil {
		return ErrAddressInvalid
	}
	if network == nil || network.kind != "Overlay" {
		return nil
	}
	if !slices.ContainsFunc(network.subnets, func(s subnet) bool { return s.prefix.Contains(addr) }) {
		return nil
	}
	if n.anyHaving(localOf, addr.String(), "") {
		return nil
	}
	return ErrAddressInvalid
}

// frontends are the keys by which load balancers conflict: address (or node), protocol, port and family.
// The order of the keys does not matter: each is looked up on its own.
func (b *balancerDoc) frontends() (keys []string) {
	vips := b.vips
	if len(vips) == 0 {
		vips = []string{"node"}
	}
	for _, vip := range vips {
		for _, p := range b.ports {
			keys = append(keys, fmt.Sprintf("%s/%d/%d/%v", vip, p.protocol, p.external, b.ipv6))
		}
	}
	return keys
}

// hostPorts are the ports of the host itself that a load balancer takes: those without a frontend address, and those
// that programs of the host reach (flag 2).
func (b *balancerDoc) hostPorts() (keys []string) {
	for _, p := range b.ports {
		if len(b.vips) == 0 || p.flags&2 != 0 {
			keys = append(keys, fmt.Sprintf("%d/%d/%v", p.protocol, p.external, b.ipv6))
		}
	}
	return keys
}

// checkNodePorts refuses a port of the node that an endpoint's port mapping has.
// Load balancers with a frontend address take no port of the node.
func checkNodePorts(n *State, b *balancerDoc) error {
	if len(b.vips) > 0 {
		return nil
	}
	for _, p := range b.ports {
		for _, e := range n.endpointsHaving(hostPortOf, p.key()) {
			if slices.ContainsFunc(e.endpoint.ports, p.same) {
				return ErrPortAlreadyExists
			}
		}
	}
	return nil
}

// modifyLoadBalancer takes a complete document. Version 15.4 accepts it and changes nothing
// (kubernetes/kubernetes#131466); older ones do not have the call.
func (h *Host) modifyLoadBalancer(n *State, o *Object, d Doc) error {
	if !h.Profile.Version.AtLeast(15, 4) {
		return ErrNotImplemented
	}
	if !h.Profile.Version.AtLeast(15, 5) {
		return nil
	}
	changed := &Object{Kind: LoadBalancer, ID: o.ID, Doc: d}
	// The ID stays that of the object, whatever the document says.
	d.set("ID", o.ID)
	if err := h.checkLoadBalancer(n, changed); err != nil {
		return err
	}
	changed.Doc = d.copy()
	n.put(changed)
	return nil
}

// checkRoute normalises an SDN route: its list is called Setting by some clients and Routes by others.
func checkRoute(n *State, o *Object) error {
	d := o.Doc
	var ids []any
	for _, b := range d.strs("HostComputeEndpoints") {
		id := canonicalID(b)
		if _, ok := n.Get(Endpoint, id); !ok {
			return ErrEndpointNotFound
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return ErrInvalidParameter
	}
	// Both names are written back, so that a client of either finds its list.
	list := d.docs("Setting")
	if len(list) == 0 {
		list = d.docs("Routes")
	}
	if len(list) == 0 {
		return ErrInvalidParameter
	}
	for _, r := range list {
		if _, err := netip.ParsePrefix(r.str("DestinationPrefix")); err != nil {
			return ErrInvalidPrefix
		}
	}

	d.set("HostComputeEndpoints", ids)
	d.set("Setting", list)
	d.set("Routes", list)
	return nil
}

// modifyRoute replaces the whole document, as for load balancers.
func modifyRoute(n *State, o *Object, d Doc) error {
	changed := &Object{Kind: Route, ID: o.ID, Doc: d}
	d.set("ID", o.ID)
	if err := checkRoute(n, changed); err != nil {
		return err
	}
	changed.Doc = d.copy()
	n.put(changed)
	return nil
}

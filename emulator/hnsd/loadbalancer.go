package hnsd

import (
	"fmt"
	"net/netip"
	"slices"
)

const maxBackends = 1024

// checkLoadBalancer normalises and checks a load balancer, alone and against the others.
func (h *Host) checkLoadBalancer(n *State, o *Object) error {
	d := o.Doc
	network, err := checkBackends(n, d)
	if err != nil {
		return err
	}
	for _, vip := range d.strs("FrontendVIPs") {
		if _, err := netip.ParseAddr(vip); err != nil {
			return ErrAddressInvalid
		}
	}

	if d.num("Flags")&2 != 0 { // IPv6
		net, ok := n.Get(Network, network)
		if overlay := ok && net.Doc.str("Type") == "Overlay"; overlay || !h.Profile.Version.AtLeast(11, 10) {
			// overlays carry none, older versions do not announce it; the code is unverified, no. 61
			return ErrInvalidParameter
		}
	}

	if err := checkSourceVIP(n, network, d.str("SourceVIP")); err != nil {
		return err
	}
	for _, key := range frontends(d) {
		if n.anyHaving(frontendOf, key, o.ID) {
			return h.Profile.FrontendConflict
		}
	}

	for _, port := range hostPorts(d) {
		if h.Profile.OnePortOwner && n.anyHaving(hostPortTaken, port, o.ID) {
			return ErrPortAlreadyExists
		}
	}
	if err := checkNodePorts(n, d); err != nil {
		return err
	}
	if h.listenerTaken(d) {
		return ErrPortAlreadyExists
	}
	return h.checkPortBlocks(n, o)
}

// checkBackends writes each endpoint once, by its canonical ID. It returns the network of the first one.
func checkBackends(n *State, d Doc) (network string, err error) {
	backends := d.strs("HostComputeEndpoints")
	if len(backends) == 0 || len(backends) > maxBackends {
		return "", ErrInvalidParameter
	}

	var ids []any
	seen := make(map[string]bool, len(backends))
	for _, b := range backends {
		id := canonicalID(b)
		e, ok := n.Get(Endpoint, id)
		if !ok {
			return "", ErrEndpointNotFound
		}
		if network == "" {
			network = e.Doc.str("HostComputeNetwork")
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

func holdsBlock(d Doc) bool { return d.num("Flags")&1 == 0 }

// checkPortBlocks refuses a load balancer for which no block is left (kubernetes/kubernetes#117783; the code is
// unverified, no. 62). One that has its block keeps it.
func (h *Host) checkPortBlocks(n *State, o *Object) error {
	if h.PortBlocks == nil || !holdsBlock(o.Doc) {
		return nil
	}
	if old, ok := n.Get(LoadBalancer, o.ID); ok && holdsBlock(old.Doc) {
		return nil
	}
	if n.PortBlocks() >= h.PortBlocks() {
		return ErrPortAlreadyExists
	}
	return nil
}

// listenerTaken reports whether a process of the host has a port that the load balancer wants on the host's own
// addresses: a node port, or a frontend that is the node's address.
func (h *Host) listenerTaken(d Doc) bool {
	if !h.Profile.HostListeners || h.Listens == nil {
		return false
	}
	var addrs []netip.Addr
	vips := d.strs("FrontendVIPs")
	for _, v := range vips {
		if v == h.NodeAddr {
			addrs = append(addrs, netip.MustParseAddr(v))
		}
	}
	if len(vips) == 0 {
		addrs = append(addrs, netip.Addr{})
	}
	for _, addr := range addrs {
		for _, m := range d.docs("PortMappings") {
			if h.Listens(uint8(protocol(m)), addr, uint16(m.num("ExternalPort"))) {
				return true
			}
		}
	}
	return false
}

// checkSourceVIP: an address of an overlay network must be a local endpoint's; addresses of no network of ours are
// taken as they are.
func checkSourceVIP(n *State, network, vip string) error {
	if vip == "" {
		return nil
	}
	addr, err := netip.ParseAddr(vip)
	if err != nil {
		return ErrAddressInvalid
	}
	net, ok := n.Get(Network, network)
	if !ok || net.Doc.str("Type") != "Overlay" {
		return nil
	}
	if !slices.ContainsFunc(subnetsOf(net.Doc), func(s subnet) bool { return s.prefix.Contains(addr) }) {
		return nil
	}
	if n.anyHaving(localOf, addr.String(), "") {
		return nil
	}
	return ErrAddressInvalid
}

// frontends are the keys by which load balancers conflict: address (or node), protocol, port and family.
func frontends(d Doc) []string {
	vips := d.strs("FrontendVIPs")
	if len(vips) == 0 {
		vips = []string{"node"}
	}
	var keys []string
	for _, vip := range vips {
		for _, m := range d.docs("PortMappings") {
			keys = append(keys, fmt.Sprintf("%s/%d/%d/%v", vip, protocol(m), m.num("ExternalPort"),
				d.num("Flags")&2 != 0))
		}
	}
	return keys
}

// hostPorts are the ports of the host itself that a load balancer takes: those without a frontend address, and those
// that programs of the host reach (flag 2).
func hostPorts(d Doc) (keys []string) {
	for _, m := range d.docs("PortMappings") {
		if len(d.strs("FrontendVIPs")) == 0 || m.num("Flags")&2 != 0 {
			keys = append(keys, fmt.Sprintf("%d/%d/%v", protocol(m), m.num("ExternalPort"), d.num("Flags")&2 != 0))
		}
	}
	return keys
}

// checkNodePorts refuses a port of the node that an endpoint's port mapping has.
func checkNodePorts(n *State, d Doc) error {
	if len(d.strs("FrontendVIPs")) > 0 {
		return nil
	}
	for _, m := range d.docs("PortMappings") {
		for _, e := range n.endpointsHaving(hostPortOf, portKey(m)) {
			for _, p := range e.Doc.docs("Policies") {
				if p.str("Type") == "PortMapping" && samePort(m, p.doc("Settings")) {
					return ErrPortAlreadyExists
				}
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

package path

import (
	"fmt"
	"net/netip"
	"slices"

	"porthole.dev/porthole/hns"
)

// vxlanPort is the UDP port of HNS's overlay networks that name none.
const vxlanPort = 4789

// tunnelEnd is how a machine is in an overlay: what others have to send to it.
type tunnelEnd struct {
	vni  uint32
	port uint16
	mac  string // in HNS's form; empty: not known
}

// tunnel is an entry that leads to another machine's end.
type tunnel struct {
	tunnelEnd
	to      netip.Addr
	decides string // the entry
}

// overlay returns the overlay network of HNS that has the node's pods; nil if there is none.
func (f *Facts) overlay(n *Node) *hns.Network {
	self := f.clusterNode(n.Name)
	if n.HNS == nil || self == nil {
		return nil
	}
	for i := range n.HNS.Networks {
		network := &n.HNS.Networks[i]
		if network.Type == hns.Overlay &&
			slices.ContainsFunc(network.Subnets,
				func(s hns.Subnet) bool { return slices.Contains(self.PodCIDRs, s.Prefix.Masked()) }) {
			return network
		}
	}
	return nil
}

// vxlan returns the VXLAN device whose address is in the node's pod range; nil if there is none.
func (f *Facts) vxlan(n *Node) *Interface {
	self := f.clusterNode(n.Name)
	if self == nil {
		return nil
	}
	for i := range n.Interfaces {
		if dev := &n.Interfaces[i]; dev.VXLANPort != 0 && slices.ContainsFunc(dev.Addresses, func(a netip.Prefix) bool {
			return slices.ContainsFunc(self.PodCIDRs, func(r netip.Prefix) bool { return r.Contains(a.Addr()) })
		}) {
			return dev
		}
	}
	return nil
}

// end returns the end of a machine. known is false if it did not report, or has none.
func (f *Facts) end(name string) (end tunnelEnd, known bool) {
	n := f.node(name)
	if n == nil {
		return end, false
	}
	// Of several subnets the greatest number counts.
	if network := f.overlay(n); network != nil {
		end = tunnelEnd{port: network.VxlanPort, mac: hns.NormalMAC(network.RouterMAC)}
		if end.port == 0 {
			end.port = vxlanPort
		}
		for _, s := range network.Subnets {
			end.vni = max(end.vni, s.VSID)
		}
		return end, true
	}
	if dev := f.vxlan(n); dev != nil {
		return tunnelEnd{vni: dev.VNI, port: dev.VXLANPort, mac: hns.NormalMAC(dev.MAC)}, true
	}
	return end, false
}

// encapsulate follows the packet through the overlay, if the machine sends it there. next is the machine to which it
// comes; empty: it goes another way. ok is false if the packet is lost.
func (w *walk) encapsulate(n *Node, r Route, to netip.Addr) (next string, ok bool) {
	target := w.facts.rangeOf(to)
	// Packets within a machine do not go through the overlay.
	if target == nil || target.Name == n.Name {
		return "", true
	}
	var t tunnel
	// On Windows the policies of the network decide, on Linux the device of the route.
	if network := w.facts.overlay(n); network != nil {
		t, ok = w.remoteSubnet(n, network, target, to)
	} else if dev := n.interfaceNamed(r.Interface); dev != nil && dev.VXLANPort != 0 {
		t, ok = w.entries(n, dev, r, target)
	} else {
		return "", true
	}
	if !ok || !w.judgeTunnel(n, t, target) || !w.underlay(n, target) {
		return "", false
	}
	return target.Name, true
}

// remoteSubnet finds the policy of an overlay network that leads to an address.
func (w *walk) remoteSubnet(n *Node, network *hns.Network, target *ClusterNode, to netip.Addr) (t tunnel, ok bool) {
	i := slices.IndexFunc(network.RemoteSubnets, func(r hns.RemoteSubnet) bool { return r.Prefix.Contains(to) })
	if i < 0 {
		return t, w.wrong(n.Name, "tunnel", "network "+network.Name, Wrong{
			Found:  fmt.Sprintf("HNS network %s has no RemoteSubnetRoute for %s", network.Name, to),
			Should: fmt.Sprintf("one that leads to %s, node %s", target.Address, target.Name),
			Who:    "porthole routes on " + n.Name})
	}
	s := network.RemoteSubnets[i]
	t = tunnel{tunnelEnd{s.VSID, network.VxlanPort, hns.NormalMAC(s.MAC)}, s.Provider,
		"RemoteSubnetRoute " + s.Prefix.String() + " of HNS network " + network.Name}
	if t.port == 0 {
		t.port = vxlanPort
	}
	return t, true
}

// entries finds the neighbour and the forwarding entry by which a VXLAN device of Linux sends. It does not ask for
// them with ARP.
func (w *walk) entries(n *Node, dev *Interface, r Route, target *ClusterNode) (t tunnel, ok bool) {
	if why := n.Unread[UnreadNeighbours]; why != "" {
		return t, w.unknown(n.Name, "neighbour", "the neighbours of "+n.Name+" could not be read: "+why)
	}
	end, _ := w.facts.end(target.Name)
	nb := n.neighbour(r.NextHop, dev.Name)
	if nb == nil || nb.MAC == "" {
		return t, w.wrong(n.Name, "neighbour", "none for "+addrOr(r.NextHop, "the next hop")+" on "+dev.Name, Wrong{
			Found: fmt.Sprintf("%s of %s has no neighbour entry for %s", dev.Name, n.Name,
				addrOr(r.NextHop, "the next hop")),
			Should: "a permanent one with the hardware address of " + target.Name + " in the overlay, " +
				orText(end.mac, "which it did not report"), Who: "porthole routes, or flanneld, on " + n.Name})
	}
	i := slices.IndexFunc(n.Forwards,
		func(f Forward) bool { return f.Interface == dev.Name && hns.NormalMAC(f.MAC) == hns.NormalMAC(nb.MAC) })
	if i < 0 {
		return t, w.wrong(n.Name, "forwarding", nb.MAC+" on "+dev.Name, Wrong{
			Found:  fmt.Sprintf("the forwarding database of %s on %s has no entry for %s", dev.Name, n.Name, nb.MAC),
			Should: fmt.Sprintf("one that leads to %s, node %s", target.Address, target.Name),
			Who:    "porthole routes, or flanneld, on " + n.Name})
	}
	return tunnel{tunnelEnd{dev.VNI, dev.VXLANPort, hns.NormalMAC(nb.MAC)}, n.Forwards[i].To,
		"neighbour " + r.NextHop.String() + " is " + nb.MAC + " and that is at " + n.Forwards[i].To.String() + ", on " +
			dev.Name}, true
}

// judgeTunnel compares an entry with what the other machine says of its end.
func (w *walk) judgeTunnel(n *Node, t tunnel, target *ClusterNode) bool {
	text := fmt.Sprintf("%s: VXLAN of VNI %d to %s, port %d, MAC %s", t.decides, t.vni, t.to, t.port, t.mac)

	// lost ends the way with what is wrong with the entry.
	lost := func(found, should string) bool {
		return w.wrong(n.Name, "tunnel", text,
			Wrong{Found: found, Should: should,
				Who: "porthole routes, or flanneld, on " + n.Name + ", from what " + target.Name + " announces"})
	}
	end, known := w.facts.end(target.Name)
	// What the other machine did not report cannot be wrong.
	switch {
	case t.to != target.Address:
		return lost(fmt.Sprintf("packets for the pods of %s are sent to %s", target.Name, t.to),
			"to "+addrOr(target.Address, "its address"))
	case known && end.mac != "" && t.mac != end.mac:
		return lost(fmt.Sprintf("packets for the pods of %s are sent to hardware address %s", target.Name, t.mac),
			end.mac+", which "+target.Name+" has in the overlay")
	case known && end.vni != 0 && t.vni != end.vni:
		return lost(fmt.Sprintf("%s sends with VNI %d, and %s has %d", n.Name, t.vni, target.Name, end.vni),
			"the same VNI on all nodes")
	case known && t.port != end.port:
		return lost(fmt.Sprintf("%s sends to UDP port %d, and %s listens at %d", n.Name, t.port, target.Name, end.port),
			"the same port on all nodes")
	}
	w.hop(n.Name, "tunnel", "%s", text)
	return true
}

// underlay checks the first step of the encapsulated packet. The rest of its way is that of any packet between the
// nodes.
func (w *walk) underlay(n *Node, target *ClusterNode) bool {
	r, ok := n.route(target.Address)
	if !ok {
		return w.wrong(n.Name, "route", "none",
			Wrong{Found: fmt.Sprintf("%s has no route to %s, node %s", n.Name, target.Address, target.Name),
				Should: "a route between the nodes", Who: "the administrator of " + n.Name})
	}
	hop := r.NextHop
	if !hop.IsValid() {
		hop = target.Address
	}
	return w.judgeNeighbour(n, r, hop)
}

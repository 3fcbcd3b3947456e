package path

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// finish follows the packet to its destination, and then the answer back to the sender. The answer is not followed if
// either end is outside of the cluster, because a node translates one of its addresses, or if both ends are on one
// machine, because its hops are the same.
func (w *walk) finish(to netip.Addr) {
	if w.lost || !w.carry(to) || w.bypassed() || w.at == w.from.node || w.facts.node(w.at) == nil {
		return
	}
	if w.facts.clusterNode(w.at) == nil || w.facts.clusterNode(w.from.node) == nil {
		return
	}
	client := w.from.addr
	if n := w.facts.clusterNode(w.ovn.masked); n != nil {
		client = n.address(to)
	}
	if n := w.facts.clusterNode(w.served); n != nil && w.served != w.from.node {
		client = n.address(to) // the machine that chose the backend translates the answer
	}

	// The answer is a packet of its own from the destination: it is not judged again by ACLs, as
	// OVN tracks connections.
	back := newWalk(w.facts, w.facts.place(to.String(), to))
	back.at, back.isAnswer = w.at, true
	if n := w.facts.node(w.at); n.ovn() && back.from.pod != nil {
		back.ovn.port = portName(back.from.pod)
	}
	back.carry(client)
	w.answer = back.hops
}

// carry walks from machine to machine until the one that has the address. It returns false if the packet is lost.
func (w *walk) carry(to netip.Addr) bool {
	if !to.IsValid() {
		return w.wrong("the destination", "address", "-",
			Wrong{Found: "the destination has no address", Should: "an address",
				Who: "the container runtime of its node"})
	}
	into := "" // the interface by which the packet came in; empty: it is sent by the machine itself, or by a pod on it
	for range longest {
		n := w.machine()
		if n == nil {
			return false
		}
		if n.ovn() {
			port, done, ok := w.ovn.logical(n, to)
			if done {
				return ok
			}
			if port != "" {
				into = port
				continue
			}
		}
		if n.has(to) {
			w.hop(n.Name, "host", "%s is an address of its own", to)
			return true
		}
		// A pod of this machine is delivered to before any route is looked up.
		if done, ok := w.deliver(n, to, into); done {
			return ok
		}
		r, next, ok := w.leave(n, to, into)
		if !ok {
			return false
		}
		// An overlay carries the packet to the other machine at once, whatever is between them.
		if next != "" {
			w.at, into = next, w.facts.device(next)
			w.via = append(w.via, next)
			continue
		}
		done := false
		if into, done, ok = w.handOver(n, r, to); done {
			return ok
		}
	}

	return w.wrong(w.at, "route", "more than "+fmt.Sprint(longest)+" machines",
		Wrong{Found: "the packet goes in a circle: " + strings.Join(w.via, ", "),
			Should: "a way to " + to.String(), Who: "those who made the routes above"})
}

// handOver passes the packet by a route to the machine that has the next address, and returns the interface of that
// machine which receives it. If done is true, the path ends here: ok says whether the packet arrives.
func (w *walk) handOver(n *Node, r Route, to netip.Addr) (into string, done, ok bool) {
	hop := r.NextHop
	if !hop.IsValid() {
		hop = to
	}
	if !w.judgeNeighbour(n, r, hop) {
		return "", true, false
	}

	// An address that nobody has is outside of the cluster, or on a router that did not report.
	next, known := w.facts.owner(hop)
	switch {
	case !known && w.facts.outside(to):
		w.hop(n.Name, "outside", "leaves the cluster through %s", hop)
		return "", true, true
	case !known:
		return "", true, w.unknown(n.Name, "router", "nobody reported the address "+hop.String()+
			": run `porthole facts` on the router that has it and give the file with --facts")
	}
	w.at = next
	w.via = append(w.via, next)
	return w.facts.arrivesBy(next, hop), false, true
}

// leave chooses how the packet leaves a machine. next is the machine that gets it through an overlay; empty: it goes
// by route r.
func (w *walk) leave(n *Node, to netip.Addr, into string) (r Route, next string, ok bool) {
	if w.facts.overlay(n) != nil { // HNS takes packets of pods before the host's stack sees them
		if next, ok = w.encapsulate(n, r, to); !ok || next != "" {
			return r, next, ok
		}
	}
	if !w.forwards(n, into) {
		return r, "", false
	}
	if r, ok = w.choose(n, to); !ok {
		return r, "", false
	}
	next, ok = w.encapsulate(n, r, to)
	return r, next, ok
}

// device returns the interface by which packets of the overlay come to a machine; empty: HNS takes them.
func (f *Facts) device(machine string) string {
	if n := f.node(machine); n != nil {
		if dev := f.vxlan(n); dev != nil {
			return dev.Name
		}
	}
	return ""
}

// arrivesBy returns the interface that has the address to which a packet was sent on the last link.
func (f *Facts) arrivesBy(machine string, addr netip.Addr) string {
	if n := f.node(machine); n != nil {
		if i := n.interfaceOf(addr); i != nil {
			return i.Name
		}
	}
	return ""
}

// outside reports whether an address belongs to no node, no pod and no service.
func (f *Facts) outside(addr netip.Addr) bool {
	_, owned := f.owner(addr)
	return !owned && f.podAt(addr) == nil && f.rangeOf(addr) == nil && !f.isService(addr)
}

// deliver hands the packet to a pod of this machine. done is false if the address is not this machine's.
func (w *walk) deliver(n *Node, to netip.Addr, into string) (done, ok bool) {
	pod := w.facts.podAt(to)
	home := w.facts.rangeOf(to)
	switch {
	case pod != nil && pod.Node != n.Name:
		return false, false
	case pod == nil && (home == nil || home.Name != n.Name):
		return false, false
	case pod == nil && n.HNS != nil && n.HNS.endpoint(to) != nil:
		w.hop(n.Name, "endpoint", "HNS endpoint %s, of no pod that the API knows", n.HNS.endpoint(to).Name)
		return true, true
	case pod == nil:
		return true, w.wrong(n.Name, "pod", "nothing has "+to.String(),
			Wrong{Found: "no pod has the address " + to.String() + ", which is in the pod range of node " + n.Name,
				Should: "a pod with this address", Who: "whoever gave the address: the pod may have ended"})
	}

	// A packet for a pod must be allowed through the host, unless the host itself sent it.
	if into != "" && !w.forwards(n, into) {
		return true, false
	}
	p := place{text: pod.Name, addr: to, pod: pod, node: n.Name}
	if n.System == "windows" {
		return true, w.windowsPort(n, p) != nil
	}
	return true, w.linuxPort(n, p)
}

// forwards checks that the machine passes packets on. into is the interface by which the packet came; empty if a pod
// of the machine, or the machine itself, sent it.
// A packet of a pod comes in by the host's interface to its pods.
func (w *walk) forwards(n *Node, into string) bool {
	if into == "" {
		if w.from.pod == nil || w.from.node != n.Name {
			return true
		}
		into = n.podInterface(w.facts, w.from.addr)
	}
	i := n.interfaceNamed(into)
	if i == nil || i.Forwarding || w.from.addr.Is6() { // facts have the setting of IPv4
		return true
	}
	who := "porthole routes on " + n.Name
	if n.System == "linux" {
		who = "the administrator of " + n.Name + ", or its CNI plugin (sysctl net.ipv4.ip_forward=1)"
	}
	return w.wrong(n.Name, "forwarding", "interface "+into,
		Wrong{Found: "IP forwarding is off on " + into + " of " + n.Name,
			Should: "forwarding on, so that packets of pods pass", Who: who})
}

// podInterface returns the interface of the host through which its pods send.
func (n *Node) podInterface(f *Facts, pod netip.Addr) string {
	home := f.rangeOf(pod)
	for _, i := range n.Interfaces {
		for _, a := range i.Addresses {
			if home != nil && slices.ContainsFunc(home.PodCIDRs,
				func(p netip.Prefix) bool { return p.Contains(a.Addr()) }) {
				return i.Name
			}
		}
	}
	return ""
}

// choose adds the hop of the route by which a packet leaves, and returns the route. If the host spreads packets over
// several routes and one of them is wrong, it is that one: some connections take it. ok is false if the packet is
// lost.
func (w *walk) choose(n *Node, to netip.Addr) (r Route, ok bool) {
	if why := n.Unread[UnreadRoutes]; why != "" {
		return r, w.unknown(n.Name, "route", "the routes of "+n.Name+" could not be read: "+why)
	}
	list := n.routes(to)
	if len(list) == 0 {
		wrong := w.facts.wanted(n, to)
		wrong.Found = n.Name + " has no route to " + to.String()
		return r, w.wrong(n.Name, "route", "none", wrong)
	}
	among := ""
	if len(list) > 1 {
		among = fmt.Sprintf(", one of %d equal ones", len(list))
	}
	for _, r := range list {
		if found := w.facts.misleads(n, r, to); found != "" {
			wrong := w.facts.wanted(n, to)
			wrong.Found = found + among
			return r, w.wrong(n.Name, "route", r.String()+among, wrong)
		}
	}
	w.hop(n.Name, "route", "%s", list[0].String()+among)
	return list[0], true
}

// wanted says which route should lead to an address, and who makes it.
func (f *Facts) wanted(n *Node, to netip.Addr) Wrong {
	target := f.rangeOf(to)
	if target == nil || target.Name == n.Name {
		return Wrong{Should: "at least a default route", Who: "the administrator of " + n.Name}
	}
	wanted := Wrong{Who: "porthole routes on " + n.Name}
	for _, p := range target.PodCIDRs {
		if p.Contains(to) {
			wanted.Should = fmt.Sprintf("route %s via %s", p, addrOr(target.address(to), "the address of "+target.Name))
			if f.vxlan(n) != nil {
				wanted.Should = fmt.Sprintf("route %s through the VXLAN device", p)
			}
		}
	}
	if f.clusterNode(n.Name) == nil {
		wanted.Who = "the administrator of router " + n.Name + ": `porthole routes --print-router` prints it"
	}
	return wanted
}

// misleads says what is wrong with a route for an address, by the mode of the machine; "" if nothing is.
func (f *Facts) misleads(n *Node, r Route, to netip.Addr) string {
	target := f.rangeOf(to)
	if target == nil || target.Name == n.Name {
		return ""
	}
	// In an overlay the next hop is the other machine's end of it, or the device is one of VXLAN.
	if dev := n.interfaceNamed(r.Interface); f.vxlan(n) != nil && r.NextHop != target.Address &&
		(dev == nil || dev.VXLANPort == 0) {
		return fmt.Sprintf("packets for the pods of %s leave the overlay by %s", target.Name, r)
	}
	// A next hop that is a router is trusted: its own routes are followed next.
	if f.direct(n) && r.NextHop != target.address(to) &&
		!(r.NextHop.IsValid() && f.isRouter(r.NextHop) && r.Destination.Bits() > 0) {
		return fmt.Sprintf("packets for the pods of %s go by %s", target.Name, r)
	}
	if owner, known := f.owner(r.NextHop); known && owner != target.Name && f.clusterNode(owner) != nil {
		return fmt.Sprintf("packets for the pods of %s go to node %s, by %s", target.Name, owner, r)
	}
	return ""
}

// direct reports whether the machine's routes lead to the nodes themselves. If its agent did not say so, those to
// other nodes do.
func (f *Facts) direct(n *Node) bool {
	if f.clusterNode(n.Name) == nil || n.Mode == "host-gateway" {
		return true
	}
	return n.Mode == "" && slices.ContainsFunc(n.Routes, func(r Route) bool {
		to := f.rangeOf(r.Destination.Addr())
		return to != nil && to.Name != n.Name && r.NextHop == to.address(r.NextHop) &&
			slices.Contains(to.PodCIDRs, r.Destination)
	})
}

// isRouter reports whether an address is one of a machine that reported and is no node.
func (f *Facts) isRouter(addr netip.Addr) bool {
	owner, known := f.owner(addr)
	return known && f.clusterNode(owner) == nil
}

// judgeNeighbour checks the entry by which the packet gets onto the link.
func (w *walk) judgeNeighbour(n *Node, r Route, hop netip.Addr) bool {
	nb := n.neighbour(hop, r.Interface)
	if nb == nil {
		return true // it is asked for when the first packet is sent
	}
	owner, _ := w.facts.owner(hop)
	at := hop.String() + " on " + r.Interface
	if nb.State == NeighbourFailed {
		return w.wrong(n.Name, "neighbour", at,
			Wrong{Found: hop.String() + " does not answer " + n.Name + " on " + r.Interface,
				Should: "an answer of " + orText(owner, "the machine with that address"),
				Who:    orText(owner, "that machine") + ": is it up, and on the same segment?"})
	}

	far := w.facts.node(owner)
	// A machine that did not report its interfaces cannot contradict the entry.
	if far == nil || nb.MAC == "" {
		return true
	}
	var macs []string
	for _, i := range far.Interfaces {
		if i.MAC != "" {
			macs = append(macs, i.MAC)
		}
	}
	// Any of the machine's hardware addresses will do: it may answer for an address on another
	// interface.
	i := far.interfaceOf(hop)
	if i == nil || i.MAC == "" || slices.Contains(macs, nb.MAC) {
		return true
	}
	who := "ARP, once the entry is gone (`ip neigh del`, `netsh interface ip delete neighbors`)"
	if nb.State == NeighbourPermanent {
		who = "whoever made this permanent entry: remove it, and ARP finds the right one"
	}
	return w.wrong(n.Name, "neighbour", at+" is "+nb.MAC,
		Wrong{Found: "the neighbour entry of " + n.Name + " for " + hop.String() + " has " + nb.MAC,
			Should: i.MAC + ", of " + i.Name + " on " + owner, Who: who})
}

// orText returns the text, or the other one if it is empty.
func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

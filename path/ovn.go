package path

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ovn is the mode in which OVN's logical switches and routers carry packets between pods.
const ovn = "ovn"

// ovn reports whether OVN carries the packets of pods on the machine: by the agent's answer or, if it gave none, by
// Open vSwitch's.
func (n *Node) ovn() bool { return n.Mode == ovn || n.Mode == "" && n.OVS != nil }

// Who makes what is missing.
const (
	ovnController = "porthole ovn-control-plane (its status at 127.0.0.1:10262 names what it cannot do)"
	ovnNorthd     = "ovn-northd: does it run?"
)

// inOVN is the part of a walk that leads through what OVN carries.
type inOVN struct {
	*walk
	port   string // the logical port by which the packet came into OVN; "": it is not there
	judged bool   // ACLs have judged the packet there before a load balancer
	masked string // the node that gave the packet its own address when it left OVN
}

// leaveLogical checks the port of a sending pod, by which the packet comes into OVN.
func (w *inOVN) leaveLogical(n *Node, p place) bool {
	o := w.databases(n)
	if o == nil || n.System == "windows" && w.windowsPort(n, p) == nil {
		return false
	}
	s, port := o.port(portName(p.pod))
	switch {
	case port == nil:
		return w.noPort(n, p)
	case !slices.Contains(port.Addresses, p.addr):
		return w.wrong(n.Name, "port", "logical port "+port.Name,
			Wrong{Found: fmt.Sprintf("OVN has %v for logical port %s, and the pod has %s", port.Addresses, port.Name,
				p.addr),
				Should: "the pod's address: OVN drops what it sends with another", Who: ovnController})
	}
	w.port = port.Name
	return w.bound(o, port, n.Name) && w.plugged(n, s, port)
}

// databases returns what OVN's databases say. It ends the way if that is not known.
func (w *inOVN) databases(n *Node) *OVN {
	o, why := w.facts.ovn()
	if o == nil {
		w.unknown(n.Name, "ovn", "OVN's databases were not read: "+why)
	}
	return o
}

// noPort ends the way of a packet for which OVN has no port.
func (w *inOVN) noPort(n *Node, p place) bool {
	return w.wrong(n.Name, "port", "none",
		Wrong{Found: "OVN has no logical port for " + p.addr.String() + podText(p),
			Should: "one on the logical switch of node " + n.Name, Who: ovnController})
}

// bound checks that a port is at the chassis of a machine.
func (w *inOVN) bound(o *OVN, port *LogicalPort, machine string) bool {
	b := o.binding(port.Name)
	label := "logical port " + port.Name
	n := w.facts.node(machine)
	should := "at the chassis of " + machine
	switch {
	case port.Disabled:
		return w.wrong(machine, "port", label,
			Wrong{Found: label + " is disabled", Should: "enabled",
				Who: "whoever did that: `ovn-nbctl lsp-set-enabled " + port.Name + " enabled`"})
	case b == nil:
		return w.wrong(machine, "binding", label,
			Wrong{Found: "the southbound database does not have " + label + ", the northbound has it", Should: should,
				Who: ovnNorthd})
	case n != nil && n.OVS != nil && n.OVS.iface(port.Name) == nil:
		return w.noInterface(n, port)
	case b.Chassis == "":
		return w.wrong(machine, "binding", label, Wrong{Found: label + " is at no chassis", Should: should,
			Who: "ovn-controller on " + machine + ": does it run, and does it reach the southbound database?"})
	}

	c := o.chassis(b.Chassis)
	if n != nil && n.OVS != nil && b.Chassis != n.OVS.SystemID || c != nil && w.facts.machineOf(c) != machine {
		return w.wrong(machine, "binding", label, Wrong{Found: label + " is at chassis " + b.Chassis, Should: should,
			Who: "requested-chassis of the port (" + ovnController +
				"), and external_ids:system-id of each node's Open vSwitch"})
	}
	if names := w.facts.sameID(b.Chassis); len(names) > 1 {
		return w.wrong(machine, "binding", label,
			Wrong{Found: strings.Join(names, " and ") + " have the same id " + b.Chassis +
				" in OVN (external_ids:system-id), and take each other's tunnels away",
				Should: "an id of its own on each node",
				Who:    "porthole routes on each: does it run everywhere with the name of its own node (--hostname-override)?"})
	}
	return true
}

// noInterface ends the way at a port without an interface in br-int.
func (w *inOVN) noInterface(n *Node, port *LogicalPort) bool {
	wrong := Wrong{Found: "br-int of " + n.Name + " has no interface with iface-id " + port.Name,
		Should: "one, made when the pod was started",
		Who:    "the CNI plugin ovn_cni on " + n.Name + " (ADD); delete the pod to have it made anew"}
	if n.isOwn(port) {
		wrong.Should = "the node's own port"
		wrong.Who = "porthole routes on " + n.Name
	}
	return w.wrong(n.Name, "interface", "none for "+port.Name, wrong)
}

// isOwn reports whether a port is that of the node itself.
func (n *Node) isOwn(port *LogicalPort) bool {
	return strings.EqualFold(port.Name, "k8s-"+n.Name)
}

// plugged checks the interface of a port on the machine.
func (w *inOVN) plugged(n *Node, s *LogicalSwitch, port *LogicalPort) bool {
	if n.OVS == nil {
		return w.unknown(n.Name, "interface", "Open vSwitch of "+n.Name+" was not read: "+orNone(n.Unread[UnreadOVS]))
	}
	i := n.OVS.iface(port.Name)
	if i == nil {
		return w.noInterface(n, port)
	}
	label := fmt.Sprintf("logical port %s of switch %s is interface %s of br-int", port.Name, s.Name, i.Name)
	link := n.interfaceNamed(i.Name)
	switch {
	case i.Error != "":
		return w.wrong(n.Name, "interface", label,
			Wrong{Found: "Open vSwitch cannot open " + i.Name + ": " + i.Error,
				Should: "an interface of the host with this name",
				Who:    "the CNI plugin ovn_cni on " + n.Name + " (ADD); delete the pod to have it made anew"})
	case link != nil && !link.Up:
		return w.wrong(n.Name, "interface", label,
			Wrong{Found: i.Name + " of " + n.Name + " is down", Should: "up",
				Who: "whoever set it down: `ip link set " + i.Name + " up`"})
	}
	w.hop(n.Name, "port", "%s", label)
	return true
}

// enter follows a packet that the host's own stack sends into OVN, by the node's own port. The host chooses the
// address of that port as the sender's.
func (w *inOVN) enter(n *Node, to netip.Addr) bool {
	o := w.databases(n)
	if o == nil {
		return false
	}
	if why := n.Unread[UnreadRoutes]; why != "" {
		return w.unknown(n.Name, "route", "the routes of "+n.Name+" could not be read: "+why)
	}
	if n.OVS == nil {
		return w.unknown(n.Name, "interface", "Open vSwitch of "+n.Name+" was not read: "+orNone(n.Unread[UnreadOVS]))
	}

	wrong := Wrong{Should: "a route through the node's own port of OVN, k8s-" + strings.ToLower(n.Name),
		Who: "porthole routes on " + n.Name}
	r, ok := n.route(to)
	if !ok {
		wrong.Found = n.Name + " has no route to " + to.String()
		return w.wrong(n.Name, "route", "none", wrong)
	}
	i := n.OVS.named(r.Interface)
	if i == nil || i.Port == "" {
		wrong.Found = "packets of " + n.Name + " to " + to.String() + " do not go into OVN, but by " + r.String()
		return w.wrong(n.Name, "route", r.String(), wrong)
	}
	s, port := o.port(i.Port)
	if port == nil {
		return w.wrong(n.Name, "port", "none",
			Wrong{Found: "OVN has no logical port " + i.Port, Should: "the port of node " + n.Name, Who: ovnController})
	}
	w.hop(n.Name, "route", "%s", r)
	// The host takes the address of the interface by which it sends.
	if own := n.interfaceNamed(r.Interface); own != nil && w.from.pod == nil && w.from.node == n.Name {
		for _, a := range own.Addresses {
			if a.Addr().Is4() == to.Is4() {
				w.from.addr = a.Addr()
			}
		}
	}
	w.port = port.Name
	return w.bound(o, port, n.Name) && w.plugged(n, s, port)
}

// balance follows the packet through the load balancers of the switch by which it comes into OVN, and returns the
// backends.
func (w *inOVN) balance(n *Node, to target) []netip.AddrPort {
	s := to.service
	label := fmt.Sprintf("service %s %s", s.Name, frontend(to))
	if to.node != "" {
		w.wrong(n.Name, "service", label,
			Wrong{Found: "in the mode ovn no node serves node ports", Should: "the cluster IP of the service",
				Who: "the client"})
		return nil
	}
	if w.port == "" && !w.enter(n, to.addr) {
		return nil
	}
	o := w.databases(n)
	on, _ := o.port(w.port)
	// Before a load balancer ACLs judge the packet with the service's address.
	w.judged = true
	if !w.allowed(o, on, logicalPacket{in: w.port, src: w.from.addr, dst: to.addr, protocol: to.protocol,
		port: to.port}, early) {
		return nil
	}

	// Backends that terminate are left out: OVN gets those that are ready only.
	all := Service{Backends: slices.DeleteFunc(slices.Clone(s.Backends), func(b Backend) bool { return b.Terminating })}
	wanted := chosen(all.Backends, func(b Backend) bool { return b.Address.Addr().Is4() == to.addr.Is4() }, true)
	at := netip.AddrPortFrom(to.addr, to.port)
	// serves reports whether a load balancer has the frontend.
	serves := func(b Balancer) bool { _, ok := b.VIPs[at]; return ok && cmp.Or(b.Protocol, "tcp") == to.protocol }
	list := o.balancers(on)
	i := slices.IndexFunc(list, serves)
	switch {
	case len(wanted) == 0:
		w.noBackend(n, label, s)
		return nil
	case i < 0:
		found := "OVN has no load balancer for " + frontend(to)
		for _, b := range o.Balancers {
			if serves(b) {
				found = "load balancer " + b.Name + " is not one of logical switch " + on.Name
			}
		}
		w.wrong(n.Name, "service", label,
			Wrong{Found: found, Should: "one with the backends " + join(wanted), Who: ovnController})
		return nil
	}
	w.served = n.Name
	rule := sortedBackends(list[i].VIPs[at])
	w.judgeBackends(n, fmt.Sprintf("load balancer %s of switch %s (%s)", list[i].Name, on.Name, frontend(to)), rule,
		wanted, ovnController)
	return rule
}

// logical follows the packet through OVN, if it is there or the host sends it there. It returns the interface by which
// it comes out to the own stack of the machine that w.at is then; into is empty if it has not been in OVN. With done
// it is at its destination, or lost if ok is false.
func (w *inOVN) logical(n *Node, to netip.Addr) (into string, done, ok bool) {
	if w.port == "" {
		if n.has(to) || w.facts.rangeOf(to) == nil && !w.facts.isService(to) {
			return "", false, true
		}
		if !w.enter(n, to) {
			return "", true, false
		}
	}
	o := w.databases(n)
	if o == nil {
		return "", true, false
	}
	s, _ := o.port(w.port)
	if s == nil {
		return "", true, w.wrong(n.Name, "port", "none",
			Wrong{Found: "OVN has no logical port " + w.port, Should: "one on the logical switch of node " + n.Name,
				Who: ovnController})
	}

	out, ok := w.forward(n, o, s, to)
	if !ok {
		return "", true, false
	}
	return w.comesOut(n, o, out, to)
}

// forward follows the packet through logical switches and the router between them, and returns the port by which it
// leaves the last one.
func (w *inOVN) forward(n *Node, o *OVN, s *LogicalSwitch, to netip.Addr) (out *LogicalPort, ok bool) {
	p := logicalPacket{in: w.port, src: w.from.addr, dst: to, protocol: w.protocol, port: w.number}
	// ACLs before a load balancer have judged a packet for a service already.
	if !w.judged && !w.allowed(o, s, p, early) || !w.allowed(o, s, p, late) {
		return nil, false
	}
	// An address of another switch goes by the router.
	if out = s.at(to); out == nil {
		up, r := o.uplink(s)
		if up == nil {
			return nil, w.wrong(n.Name, "switch", "logical switch "+s.Name,
				Wrong{Found: "logical switch " + s.Name + " has no port to a router", Should: "the port stor-" + s.Name,
					Who: ovnController})
		}
		p.out = up.Name
		if !w.allowed(o, s, p, egress) {
			return nil, false
		}

		via, hop, ok := w.route(n, r, to)
		if !ok {
			return nil, false
		}
		next, entry := o.behind(via)
		if next == nil {
			return nil, w.wrong(n.Name, "router", "port "+via+" of router "+r.Name,
				Wrong{Found: "port " + via + " of router " + r.Name + " leads to no switch",
					Should: "the logical switch of a node", Who: ovnController})
		}
		s, p.in, p.out = next, entry.Name, ""
		if !w.allowed(o, s, p, early) || !w.allowed(o, s, p, late) {
			return nil, false
		}
		if out = s.at(hop); out == nil {
			return nil, w.nobody(n, s, hop)
		}
	}
	p.out = out.Name
	return out, w.allowed(o, s, p, egress)
}

// nobody ends the way of a packet to an address that no port of a switch has.
func (w *inOVN) nobody(n *Node, s *LogicalSwitch, addr netip.Addr) bool {
	wrong := Wrong{Found: "no port of logical switch " + s.Name + " has the address " + addr.String(),
		Should: "a pod with this address", Who: "whoever gave the address: the pod may have ended"}
	if pod := w.facts.podAt(addr); pod != nil {
		wrong.Found += ", which pod " + pod.Name + " has"
		wrong.Should = "the logical port " + portName(pod)
		wrong.Who = ovnController
	}
	return w.wrong(n.Name, "switch", "logical switch "+s.Name, wrong)
}

// route chooses the route of a logical router.
func (w *inOVN) route(n *Node, r *LogicalRouter, to netip.Addr) (port string, hop netip.Addr, ok bool) {
	if len(r.Other) > 0 {
		return "", hop, w.unknown(n.Name, "router",
			"router "+r.Name+" has "+strings.Join(r.Other, " and ")+
				", which are not followed here: `ovn-trace` does that")
	}
	port, hop, text := r.route(w.from.addr, to)
	if port == "" {
		return "", hop, w.wrong(n.Name, "router", "router "+r.Name,
			Wrong{Found: fmt.Sprintf("logical router %s has no route for packets from %s to %s", r.Name, w.from.addr,
				to),
				Should: "a port with the range of the destination, or a route to the node through which such packets leave OVN", Who: ovnController})
	}
	w.hop(n.Name, "router", "logical router %s: %s, by port %s", r.Name, text, port)
	return port, hop, true
}

// route returns the port and the next hop of a packet, and what decides; the port is empty if the router has no route.
// OVN takes the longest prefix; of equal ones that of its own network, then a route by destination, then one by source
// (ovn northd, ROUTE_PRIO_OFFSET).
func (r *LogicalRouter) route(from, to netip.Addr) (port string, hop netip.Addr, text string) {
	best := -1
	// The weight of a route: its prefix first, then its kind, so that no two kinds are equal.
	const own, byDestination, bySource, kinds = 2, 1, 0, 3
	for _, p := range r.Ports {
		for _, network := range p.Networks {
			if weight := network.Bits()*kinds + own; network.Masked().Contains(to) && weight > best {
				best = weight
				port = p.Name
				hop = to
				text = "network " + network.Masked().String()
			}
		}
	}

	for _, route := range r.Routes {
		about := to
		kind := byDestination
		words := "route "
		if route.BySource {
			about = from
			kind = bySource
			words = "route of packets from "
		}
		if weight := route.Prefix.Bits()*kinds + kind; route.Prefix.Contains(about) && weight > best {
			best = weight
			port = cmp.Or(route.Port, r.towards(route.NextHop))
			hop = route.NextHop
			text = words + route.Prefix.String() + " via " + route.NextHop.String()
		}
	}
	return port, hop, text
}

// towards returns the port with the network that has an address.
func (r *LogicalRouter) towards(addr netip.Addr) string {
	for _, p := range r.Ports {
		if slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Masked().Contains(addr) }) {
			return p.Name
		}
	}
	return ""
}

// comesOut brings the packet to the machine of the port by which it leaves OVN. Its results are those of logical.
func (w *inOVN) comesOut(n *Node, o *OVN, out *LogicalPort, to netip.Addr) (into string, done, ok bool) {
	pod := w.facts.podAt(to)
	// The machine of a port is that of its chassis; pods are where the API says.
	machine := ""
	if b := o.binding(out.Name); b != nil {
		if c := o.chassis(b.Chassis); c != nil {
			machine = w.facts.machineOf(c)
		}
	}
	switch {
	case pod != nil && slices.Contains(out.Addresses, to):
		machine = pod.Node
	case machine == "": // that of the range which has the port's address
		if home := w.facts.rangeOf(firstOf(out.Addresses)); home != nil {
			machine = home.Name
		}
	}
	if !w.bound(o, out, machine) {
		return "", true, false
	}
	// Between two machines the packet goes through a tunnel.
	if machine != n.Name {
		if !w.tunnelled(n, o, o.chassis(o.binding(out.Name).Chassis), machine) {
			return "", true, false
		}
		w.at = machine
		w.via = append(w.via, machine)
	}

	far := w.machine()
	if far == nil {
		return "", true, false
	}
	s, _ := o.port(out.Name)
	if pod != nil && far.System == "windows" &&
		w.windowsPort(far, place{text: pod.Name, addr: to, pod: pod, node: far.Name}) == nil ||
		!w.plugged(far, s, out) {
		return "", true, false
	}
	w.port = ""
	if slices.Contains(out.Addresses, to) && !far.has(to) {
		return "", true, true
	}
	// A packet for the host of the other machine leaves OVN with that node's address.
	if !far.has(to) && w.from.pod != nil {
		w.masked = far.Name
	}
	return far.OVS.iface(out.Name).Name, false, true
}

// firstOf is not valid for an empty list.
func firstOf(list []netip.Addr) netip.Addr {
	if len(list) == 0 {
		return netip.Addr{}
	}
	return list[0]
}

// tunnelled follows the packet through the tunnel to another chassis.
func (w *inOVN) tunnelled(n *Node, o *OVN, c *Chassis, machine string) bool {
	if n.OVS == nil {
		return w.unknown(n.Name, "tunnel", "Open vSwitch of "+n.Name+" was not read: "+orNone(n.Unread[UnreadOVS]))
	}
	if c == nil {
		return w.wrong(n.Name, "tunnel", "none",
			Wrong{Found: "the southbound database has no chassis of " + machine, Should: "one with its address",
				Who: "ovn-controller on " + machine})
	}
	// A chassis may have several ends, one for each kind of tunnel.
	var ends []string
	for _, e := range c.Ends {
		ends = append(ends, e.Kind+" to "+e.Addr.String())
	}
	i := slices.IndexFunc(n.OVS.Interfaces,
		func(i OVSInterface) bool { return i.Chassis == c.Name && i.Remote.IsValid() })
	should := strings.Join(ends, " or ") + ", as chassis " + c.Name + " says"
	who := "ovn-controller on " + n.Name +
		": does it run, does it reach the southbound database, and do both nodes have a kind of tunnel in common?"
	if i < 0 {
		return w.wrong(n.Name, "tunnel", "none",
			Wrong{Found: "br-int of " + n.Name + " has no tunnel to chassis " + c.Name, Should: should, Who: who})
	}

	t := n.OVS.Interfaces[i]
	text := fmt.Sprintf("%s: %s to %s, chassis %s", t.Name, t.Kind, t.Remote, c.Name)
	far := w.facts.node(machine)
	switch {
	case t.Error != "":
		return w.wrong(n.Name, "tunnel", text,
			Wrong{Found: "Open vSwitch cannot open tunnel " + t.Name + ": " + t.Error, Should: should,
				Who: "Open vSwitch on " + n.Name})
	case !slices.Contains(c.Ends, Encap{t.Kind, t.Remote}):
		return w.wrong(n.Name, "tunnel", text,
			Wrong{Found: fmt.Sprintf("tunnel %s of %s is %s to %s", t.Name, n.Name, t.Kind, t.Remote), Should: should,
				Who: who})
	case far != nil && !far.has(t.Remote):
		return w.wrong(n.Name, "tunnel", text,
			Wrong{Found: machine + " has no interface with " + t.Remote.String() +
				", the address of its end of tunnels",
				Should: "an address of " + machine + " in external_ids:ovn-encap-ip of its Open vSwitch",
				Who:    "porthole routes on " + machine + " (--ovn-encap-ip), and who gives the interface its address"})
	}
	// The tunnel's own packets need a way between the nodes.
	if _, ok := n.route(t.Remote); !ok && n.Unread[UnreadRoutes] == "" {
		return w.wrong(n.Name, "tunnel", text,
			Wrong{Found: fmt.Sprintf("%s has no route to %s, the end of the tunnel to %s", n.Name, t.Remote, machine),
				Should: "a route between the nodes", Who: "the administrator of " + n.Name})
	}
	w.hop(n.Name, "tunnel", "%s", text)
	return true
}

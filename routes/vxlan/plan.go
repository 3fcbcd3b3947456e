package vxlan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"porthole.dev/porthole/routes/table"
)

// Peer is one pod range of another node. Its NextHop is the address that encapsulated packets go to. A peer that is
// Missing can be reached: it has everything that is needed, and the plan of each system finds out whether it is
// Present.
type Peer struct {
	table.Wanted
	MAC MAC // of the other node's VXLAN device; zero: not known

	node *table.Node
}

// entries are what a host has of peers.
type entries struct {
	mac MAC // of this node's own endpoint; zero: not known
	// leads reports whether packets for a range go to the endpoint with that MAC address at that node's address
	// already.
	leads func(dst netip.Prefix, mac MAC, public netip.Addr) bool
	// at returns where packets for a MAC address go; zero: nowhere, or on this system that is not a matter of MAC
	// addresses.
	at func(MAC) netip.Addr
}

// Peers returns a peer for each pod range of every node but this one, by destination. One that cannot be reached is
// Waiting if its node has not announced everything yet, and Refused, with the reason, if what it announces does not
// fit or is not true.
func Peers(o Options, nodes []table.Node, has entries) []Peer {
	byName := make(map[string]*table.Node, len(nodes))
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	claims := table.Claims{Self: o.Node, Cluster: o.cluster(), Leads: func(n table.Node, dst netip.Prefix) bool {
		a, announced, err := o.Config.read(n.Annotations, n.Addr)
		return announced && err == nil && has.leads != nil && has.leads(dst, a.MAC, a.Public)
	}}

	wanted := table.Peers(nodes, claims)
	peers := make([]Peer, len(wanted))
	for i, w := range wanted {
		peers[i] = Peer{Wanted: w, node: byName[w.Node]}
		if w.State == table.Refused || o.Config.Hybrid && w.State == table.Waiting {
			continue
		}
		a, announced, err := o.Config.read(peers[i].node.Annotations, w.NextHop)
		peers[i].join(o.Config, a, announced, err)
		peers[i].hold(o, has.mac)
	}
	refuseTwins(peers, o.Config, has.at)
	return peers
}

// join sets what the announcement of the peer's node says.
func (p *Peer) join(c Config, a Announcement, announced bool, err error) {
	p.NextHop, p.MAC = a.Public, a.MAC
	p.State, p.Reason = table.Missing, ""
	refuse := func(format string, args ...any) { p.State, p.Reason = table.Refused, fmt.Sprintf(format, args...) }
	wait := func(format string, args ...any) { p.State, p.Reason = table.Waiting, fmt.Sprintf(format, args...) }

	switch {
	case !p.Dst.Addr().Is4():
		refuse("pod range %s of node %s: the VXLAN overlay carries IPv4 only, because Windows knows no other", p.Dst,
			p.Node)
	case !announced:
		wait("%s", c.silent(p.Node))
	case err != nil:
		refuse("node %s %v: this node uses VXLAN with VNI %d", p.Node, err, c.VNI)
	case a.VNI != 0 && a.VNI != c.VNI:
		refuse(
			"node %s announces VNI %d, this node has %d: packets between them would be dropped; give all nodes the same", p.Node, a.VNI, c.VNI)
	case !a.Public.IsValid():
		wait("node %s has not announced its address yet (annotation %s)", p.Node, AnnotationPublicIP)
	case !a.Public.Is4():
		refuse("node %s announces address %s: the VXLAN overlay needs an IPv4 address", p.Node, a.Public)
	case p.Dst.Contains(a.Public):
		refuse("address %s of node %s lies inside its own pod range %s", a.Public, p.Node, p.Dst)
	case a.MAC == MAC{}:
		wait("node %s has not announced the MAC address of its VXLAN endpoint yet (annotation %s)", p.Node,
			AnnotationBackendData)
	}
}

// hold refuses what a node announces and cannot have: an address or a MAC address that is this node's, or that no node
// has.
func (p *Peer) hold(o Options, own MAC) {
	if p.State != table.Missing {
		return
	}
	why := o.cluster().RefusesAddress(p.Node, p.NextHop)
	switch {
	case why != "":
	case p.NextHop == o.Addr:
		why = fmt.Sprintf("node %s announces address %s, which is that of this node, %s", p.Node, p.NextHop, o.Node)
	case own != MAC{} && p.MAC == own:
		why = fmt.Sprintf("node %s announces the VTEP MAC address %s, which is that of this node, %s: %s", p.Node,
			p.MAC, o.Node, otherMAC)
	case p.MAC[0]&0x01 != 0:
		why = fmt.Sprintf("node %s announces the VTEP MAC address %s, which is one of a group", p.Node, p.MAC)
	default:
		return
	}
	p.State = table.Refused
	p.Reason = why
	p.Untrue = true
}

// otherMAC is how a node that was cloned gets a MAC address of its own.
const otherMAC = "delete the VXLAN device of the node that was copied (on Windows: the HNS network), so that it gets another"

// narrow says so in the reason if packets as large as the uplink sends do not get to the peer's node. paths is
// Kernel.PathMTU.
func (p *Peer) narrow(paths map[netip.Addr]int, uplink Uplink) {
	if size, narrow := paths[p.NextHop]; narrow && p.Reason == "" {
		p.Reason = fmt.Sprintf(
			"packets to node %s (%s) of more than %d bytes get lost, and interface %s sends up to %d: large packets between pods vanish; "+
				"raise the MTU of the network between the nodes, or set %s to MTU %d", p.Node, p.NextHop, size,
			uplink.Name,
			uplink.MTU, uplink.Name, size)
	}
}

// refuseTwins refuses peers of different nodes with one MAC address but for one of them: the forwarding entry of that
// address can lead to one only. Nodes that were cloned have such addresses, and a node can announce that of another.
// The one that keeps it is that whose name gives the address (firstMAC), or else the one to which packets for it go
// already, or else the oldest.
func refuseTwins(peers []Peer, c Config, at func(MAC) netip.Addr) {
	groups := map[MAC][]*Peer{}
	for i := range peers {
		if p := &peers[i]; p.State == table.Missing {
			groups[p.MAC] = append(groups[p.MAC], p)
		}
	}
	first := func(yes bool) int {
		if yes {
			return 0
		}
		return 1
	}

	for mac, group := range groups {
		if len(group) < 2 {
			continue
		}
		place := netip.Addr{}
		if at != nil {
			place = at(mac)
		}
		slices.SortStableFunc(group, func(a, b *Peer) int {
			return cmp.Or(first(firstMAC(a.Node, c) == mac)-first(firstMAC(b.Node, c) == mac),
				first(a.NextHop == place)-first(b.NextHop == place), table.Older(*a.node, *b.node))
		})
		for _, p := range group[1:] {
			if p.NextHop != group[0].NextHop { // else the entry of both is the same
				p.State, p.Untrue = table.Refused, true
				p.Reason = fmt.Sprintf("nodes %s and %s announce the same VTEP MAC address %s, and %s had it first: %s",
					group[0].Node, p.Node, mac, group[0].Node, otherMAC)
			}
		}
	}
}

// Wanted returns the peers as the wanted routes of a plan.
func Wanted(peers []Peer) []table.Wanted {
	wanted := make([]table.Wanted, len(peers))
	for i, p := range peers {
		wanted[i] = p.Wanted
	}
	table.Blame(wanted)
	return wanted
}

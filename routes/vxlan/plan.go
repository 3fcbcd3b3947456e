package vxlan

import (
	"fmt"
	"net/netip"

	"porthole.dev/porthole/routes/table"
)

// Peer is one pod range of another node. Its NextHop is the address that encapsulated packets go to. A peer that is Missing can be
// reached: it has everything that is needed, and the plan of each system finds out whether it is Present.
type Peer struct {
	table.Wanted
	MAC MAC // of the other node's VXLAN device; zero: not known
}

// Peers returns a peer for each pod range of every node but self, by destination. One that cannot be reached is Waiting if its node has
// not announced everything yet, and Refused, with the reason, if what it announces does not fit.
func Peers(c Config, self string, nodes []table.Node) []Peer {
	annotations := make(map[string]map[string]string, len(nodes))
	for _, n := range nodes {
		annotations[n.Name] = n.Annotations
	}

	wanted := table.Peers(nodes, self)
	peers := make([]Peer, len(wanted))
	for i, w := range wanted {
		peers[i] = Peer{Wanted: w}
		if w.State == table.Refused || c.Hybrid && w.State == table.Waiting {
			continue
		}
		a, announced, err := c.read(annotations[w.Node], w.NextHop)
		peers[i].join(c, a, announced, err)
	}
	refuseTwins(peers)
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
		refuse("pod range %s of node %s: the VXLAN overlay carries IPv4 only, because Windows knows no other", p.Dst, p.Node)
	case !announced:
		wait("%s", c.silent(p.Node))
	case err != nil:
		refuse("node %s %v: this node uses VXLAN with VNI %d", p.Node, err, c.VNI)
	case a.VNI != 0 && a.VNI != c.VNI:
		refuse("node %s announces VNI %d, this node has %d: packets between them would be dropped; give all nodes the same", p.Node, a.VNI, c.VNI)
	case !a.Public.IsValid():
		wait("node %s has not announced its address yet (annotation %s)", p.Node, AnnotationPublicIP)
	case !a.Public.Is4():
		refuse("node %s announces address %s: the VXLAN overlay needs an IPv4 address", p.Node, a.Public)
	case p.Dst.Contains(a.Public):
		refuse("address %s of node %s lies inside its own pod range %s", a.Public, p.Node, p.Dst)
	case a.MAC == MAC{}:
		wait("node %s has not announced the MAC address of its VXLAN endpoint yet (annotation %s)", p.Node, AnnotationBackendData)
	}
}

// narrow says so in the reason if packets as large as the uplink sends do not get to the peer's node. paths is Kernel.PathMTU.
func (p *Peer) narrow(paths map[netip.Addr]int, uplink Uplink) {
	if size, narrow := paths[p.NextHop]; narrow && p.Reason == "" {
		p.Reason = fmt.Sprintf("packets to node %s (%s) of more than %d bytes get lost, and interface %s sends up to %d: large packets between pods vanish; "+
			"raise the MTU of the network between the nodes, or set %s to MTU %d", p.Node, p.NextHop, size, uplink.Name, uplink.MTU, uplink.Name, size)
	}
}

// refuseTwins refuses peers of different nodes with one MAC address: the forwarding entry of that address could lead to one of them
// only. Nodes that were cloned have such addresses.
func refuseTwins(peers []Peer) {
	first := map[MAC]int{}
	for i := range peers {
		p := &peers[i]
		if p.State != table.Missing {
			continue
		}
		j, taken := first[p.MAC]
		if !taken {
			first[p.MAC] = i
			continue
		}
		if other := &peers[j]; other.Node != p.Node {
			reason := fmt.Sprintf("nodes %s and %s announce the same VTEP MAC address %s: delete the VXLAN device of one of them (on Windows: the HNS network), so that it gets another",
				other.Node, p.Node, p.MAC)
			other.State, other.Reason = table.Refused, reason
			p.State, p.Reason = table.Refused, reason
		}
	}
}

// Wanted returns the peers as the wanted routes of a plan.
func Wanted(peers []Peer) []table.Wanted {
	wanted := make([]table.Wanted, len(peers))
	for i, p := range peers {
		wanted[i] = p.Wanted
	}
	return wanted
}

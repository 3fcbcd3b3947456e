package vxlan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/routes/table"
)

// PolicyVerb is the verb of a PolicyOp.
type PolicyVerb string

// Verbs of policies.
const (
	RemovePolicy PolicyVerb = "remove policy"
	AddPolicy    PolicyVerb = "add policy"
	Tell         PolicyVerb = "announce"
)

// PolicyOp is one change of the HNS network of a Windows host, or of what the node announces.
type PolicyOp struct {
	Verb        PolicyVerb
	Remote      hns.RemoteSubnet  // of AddPolicy, and of RemovePolicy as HNS lists it
	Annotations map[string]string // of Tell
	Peer        netip.Prefix      // the pod range that it helps to reach; zero: none
	Why         string
}

// Makes implements table.Op.
func (o PolicyOp) Makes() netip.Prefix { return o.Peer }

// String implements table.Op.
func (o PolicyOp) String() string {
	if o.Verb == Tell {
		return fmt.Sprintf("%s %s: %s", o.Verb, strings.Join(sortedPairs(o.Annotations), " "), o.Why)
	}
	r := o.Remote
	return fmt.Sprintf("%s RemoteSubnetRoute %s vsid %d at %s mac %s: %s", o.Verb, r.Prefix, r.VSID, r.Provider, r.MAC,
		o.Why)
}

// Overlay is what the mode observes of a Windows host.
type Overlay struct {
	Network hns.Network
	Uplink  Uplink // zero: not known
	// PathMTU holds nodes' addresses to which packets as large as the uplink sends do not get, with the size that does.
	PathMTU map[netip.Addr]int
}

// PlanOverlay plans the policies of a Windows host's overlay network: one for each peer, which says what neighbour,
// forwarding entry and route say on Linux. A wrong policy of a range is removed before the right one is added, because
// HNS takes both and does not say which one counts. Policies of ranges outside the pods' range are somebody else's.
// The node announces itself once HNS has given it a MAC address in the overlay, and again whenever that is another
// one.
func PlanOverlay(o Options, nodes []table.Node, seen Overlay) table.Plan[PolicyOp] {
	network := seen.Network
	peers := Peers(o, nodes, entriesOf(network))
	var ops []PolicyOp
	kept := map[netip.Prefix]bool{} // ranges whose policies stay or are planned already
	for i := range peers {
		p := &peers[i]
		if p.State == table.Refused {
			continue
		}
		kept[p.Dst] = true
		if p.State == table.Missing {
			ops = append(ops, policiesOf(p, o.Config, network.RemoteSubnets)...)
			p.narrow(seen.PathMTU, seen.Uplink)
		}
	}

	for _, have := range network.RemoteSubnets {
		ours := o.Cluster.Contains(have.Prefix.Addr()) && have.Prefix.Bits() >= o.Cluster.Bits()
		if ours && !kept[have.Prefix] {
			ops = append(ops, PolicyOp{Verb: RemovePolicy, Remote: have, Why: "no node is to be reached there"})
		}
	}
	return table.Plan[PolicyOp]{Wanted: Wanted(peers), Ops: append(ops, tell(o, nodes, network)...)}
}

// entriesOf returns what an HNS network has of peers. Its policies have a MAC address for each range.
func entriesOf(network hns.Network) entries {
	own, _ := ParseMAC(network.RouterMAC) // zero: HNS has given none yet
	leads := func(dst netip.Prefix, mac MAC, public netip.Addr) bool {
		return slices.ContainsFunc(network.RemoteSubnets, func(r hns.RemoteSubnet) bool {
			return r.Prefix == dst && r.Provider == public && hns.NormalMAC(r.MAC) == hns.NormalMAC(mac.String())
		})
	}
	return entries{mac: own, leads: leads, at: func(mac MAC) netip.Addr {
		for _, r := range network.RemoteSubnets {
			if hns.NormalMAC(r.MAC) == hns.NormalMAC(mac.String()) {
				return r.Provider
			}
		}
		return netip.Addr{}
	}}
}

// policiesOf plans the policy of a peer that can be reached, and sets its state.
func policiesOf(p *Peer, c Config, have []hns.RemoteSubnet) (ops []PolicyOp) {
	want := hns.RemoteSubnet{Prefix: p.Dst, Provider: p.NextHop, VSID: c.VNI, MAC: hns.NormalMAC(p.MAC.String())}
	there, why := false, "not there"
	for _, h := range have {
		if h.Prefix != p.Dst {
			continue
		}
		wrong := unlike(h, want)
		if wrong == "" && !there {
			there = true
			continue
		}
		if wrong == "" {
			wrong = "is there twice"
		}
		why = wrong
		ops = append(ops, PolicyOp{Verb: RemovePolicy, Remote: h, Peer: p.Dst, Why: wrong})
	}

	if there && len(ops) == 0 {
		p.State = table.Present
		return nil
	}
	if !there {
		ops = append(ops, PolicyOp{Verb: AddPolicy, Remote: want, Peer: p.Dst, Why: why})
	}
	return ops
}

// unlike returns in what a policy is not the wanted one of its range, or "".
func unlike(have, want hns.RemoteSubnet) string {
	switch {
	case have.Provider != want.Provider:
		return fmt.Sprintf("is at %s", have.Provider)
	case have.VSID != want.VSID:
		return fmt.Sprintf("has vsid %d", have.VSID)
	case hns.NormalMAC(have.MAC) != want.MAC:
		return fmt.Sprintf("has mac %s", have.MAC)
	}
	return ""
}

// tell plans what this node announces.
func tell(o Options, nodes []table.Node, network hns.Network) []PolicyOp {
	mac, err := ParseMAC(network.RouterMAC)
	i := slices.IndexFunc(nodes, func(n table.Node) bool { return n.Name == o.Node })
	if err != nil || i < 0 {
		return nil
	}
	left := o.Config.unwritten(Announcement{VNI: o.Config.VNI, MAC: mac, Public: o.Addr}, nodes[i].Annotations)
	if left == nil {
		return nil
	}
	return []PolicyOp{{Verb: Tell, Annotations: left, Why: "the node does not say so"}}
}

package nb

import (
	"cmp"
	"net/netip"
	"slices"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/podranges"
)

// earlier is a range that a node had before the one of its Node object, and that pods of it still hold.
type earlier struct {
	dst   netip.Prefix
	told  bool // by pods alone
	pods  int
	first string // the key of one of them, the same in each plan
}

// earlierRanges returns the earlier ranges of nodes by name. A node whose pod range has changed keeps the one before
// while pods with addresses of that run there: their addresses do not change, and a switch has one range.
//
// What the database has is what the cluster said: a range that the Node object had when the switch was made, and a port
// of the pod there. Without a switch, as when the Node object is made anew, the pods' annotations are all there is. A
// kubelet can write those and the pods' addresses at will, so that such a range is only told: see usable.
func earlierRanges(nodes []Node, pods []Pod, seen Rows) map[string]earlier {
	ports := portsOf(seen)
	switches := switchesOf(seen)
	now := map[string]netip.Prefix{}
	for _, n := range nodes {
		now[n.Name] = n.Subnet
	}

	held := map[podranges.Key]earlier{}
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b Pod) int { return cmp.Compare(a.Key(), b.Key()) })
	for _, p := range sorted {
		on := switches[ovnet.SwitchName(p.Node)]
		r := heldBy(p, ports[ovnet.PodPort(p.Namespace, p.Name)], on.subnet)
		if subnet := now[p.Node]; !subnet.IsValid() || !r.IsValid() || r == subnet.Masked() {
			continue
		}
		key := podranges.Key{Node: p.Node, Dst: r}
		e, ok := held[key]
		if !ok {
			e = earlier{dst: r, told: on.from != fromNode, first: p.Key()}
		}
		e.pods++
		held[key] = e
	}

	found := map[string]earlier{}
	for key, e := range held { // the author of a pod may write its annotation too: the others outweigh it
		if most := found[key.Node]; e.pods > most.pods || e.pods == most.pods && e.first < most.first {
			found[key.Node] = e
		}
	}
	return found
}

// heldBy returns the range that the address of a pod is of: that of the node's switch if it has a port there, or
// without a switch the one with which it was attached. It is invalid for a pod that has no address yet.
func heldBy(p Pod, port seenPort, onSwitch netip.Prefix) netip.Prefix {
	switch {
	case !onSwitch.IsValid():
		return p.Range
	case port.uid == p.UID && port.at.IP.IsValid() && onSwitch.Contains(port.at.IP):
		return onSwitch
	}
	return netip.Prefix{}
}

// seenSwitch is what the database has of a node's switch.
type seenSwitch struct {
	subnet netip.Prefix
	from   string // who said it; see fromKey
}

// switchesOf returns our switches by name.
func switchesOf(seen Rows) map[string]seenSwitch {
	found := map[string]seenSwitch{}
	for _, row := range seen["Logical_Switch"] {
		ids := row.Map("external_ids")
		if ids[Mark] == "" {
			continue
		}
		if r, err := netip.ParsePrefix(row.Map("other_config")["subnet"]); err == nil {
			found[row.Text("name")] = seenSwitch{r, ids[fromKey]}
		}
	}
	return found
}

// claimsOf returns the ranges that nodes may have: those of their Node objects, and earlier ones. A range outside of
// that of all pods is nobody's, and one that pods alone tell is not wider than those of Node objects.
func claimsOf(f Facts, all []Node, before map[string]earlier) []podranges.Claim {
	var claims []podranges.Claim
	for _, n := range all {
		if n.Subnet.IsValid() && f.Cluster.RefusesRange(n.Name, n.Subnet.Masked()) == "" {
			claims = append(claims, podranges.Claim{Node: n.Name, Since: n.Since, Dst: n.Subnet.Masked()})
		}
	}
	said := len(claims)
	for _, n := range all {
		if e, ok := before[n.Name]; ok && f.Cluster.RefusesRange(n.Name, e.dst) == "" {
			claims = append(claims, podranges.Claim{Node: n.Name, Since: n.Since, Dst: e.dst, Told: e.told})
		}
	}
	f.Cluster.SetUsual(claims, claims[:said])
	return slices.DeleteFunc(claims, func(c podranges.Claim) bool { return c.Told && c.Dst.Bits() < c.Usual })
}

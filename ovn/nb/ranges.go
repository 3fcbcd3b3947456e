package nb

import (
	"cmp"
	"net/netip"
	"slices"

	"porthole.dev/porthole/internal/ovnet"
)

// keepRanges returns the nodes with the ranges that OVN has to use. A node whose pod range has changed keeps the one before while pods
// with addresses of that run there: their addresses do not change, and a switch has one range. The node is a problem meanwhile.
func (w *Wanted) keepRanges(nodes []Node, pods []Pod, seen Rows) []Node {
	ports, switches := portsOf(seen), rangesOf(seen)
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b Pod) int { return cmp.Compare(a.Key(), b.Key()) })
	nodes = slices.Clone(nodes)
	for i := range nodes {
		n := &nodes[i]
		if !n.Subnet.IsValid() {
			continue
		}
		before, count, first := netip.Prefix{}, 0, ""
		for _, p := range sorted {
			if p.Node != n.Name {
				continue
			}
			r := heldBy(p, ports[ovnet.PodPort(p.Namespace, p.Name)], switches[ovnet.SwitchName(n.Name)])
			if !r.IsValid() || r == n.Subnet.Masked() {
				continue
			}
			if !before.IsValid() {
				before, first = r, p.Key()
			}
			count++
		}

		if before.IsValid() {
			w.problem("Node", n.Name, "RangeInUse", "the pod range of the node is %s now, and %d of its pods, as %s, have addresses of %s, which OVN keeps until they are gone: "+
				"drain the node (kubectl drain), with the pods of DaemonSets, or give it the old range back", n.Subnet.Masked(), count, first, before)
			n.Subnet, n.kept = before, true
		}
	}
	return nodes
}

// heldBy returns the range that the address of a pod is of: that of the switch on which it has a port, or the one with which it was
// attached. It is invalid for a pod that has no address yet.
func heldBy(p Pod, port seenPort, onSwitch netip.Prefix) netip.Prefix {
	if port.uid == p.UID && port.at.IP.IsValid() && onSwitch.Contains(port.at.IP) {
		return onSwitch
	}
	return p.Range
}

// rangesOf returns the ranges of our switches by name.
func rangesOf(seen Rows) map[string]netip.Prefix {
	ranges := map[string]netip.Prefix{}
	for _, row := range seen["Logical_Switch"] {
		if row.Map("external_ids")[Mark] == "" {
			continue
		}
		if r, err := netip.ParsePrefix(row.Map("other_config")["subnet"]); err == nil {
			ranges[row.Text("name")] = r
		}
	}
	return ranges
}

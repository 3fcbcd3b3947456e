package kernel

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/dataplane/table"
)

// Diff returns what turns have into want. Order: ports that go, networks, rules, ports that come (so that no guest ever
// sends a packet past the rules), networks that go.
func Diff(want, have State) Plan {
	portsGone, portsCome := changes(want.Ports, have.Ports, strings.Compare, Port.equal)
	netnsGone, netnsCome := changes(ownNamespaces(want), ownNamespaces(have), strings.Compare, always)
	switchesGone, switchesCome := changes(want.Switches, have.Switches, strings.Compare, always)
	tunnelsGone, tunnelsCome := diffTunnels(want, have)
	keepsGone, keepsCome := changes(want.Keeps, have.Keeps, netip.Addr.Compare, equal)
	bridgesGone, _ := changes(want.Bridges, have.Bridges, strings.Compare, always)

	return slices.Concat(portsGone, netnsCome, switchesCome, tunnelsGone, keepsGone, diffBridges(want, have),
		tunnelsCome, keepsCome,
		diffTables(want, have), portsCome, bridgesGone, switchesGone, netnsGone)
}

// changes compares resources by key. gone deletes those of have that want lacks, or for which same is false; come adds
// those of want that have lacks, or for which same is false. Both are in the order of the keys.
func changes[K comparable, V Resource](want, have map[K]V, order func(a, b K) int,
	same func(w, h V) bool) (gone, come Plan) {
	for _, key := range slices.SortedFunc(maps.Keys(have), order) {
		if w, ok := want[key]; !ok || !same(w, have[key]) {
			gone = append(gone, Del{have[key]})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(want), order) {
		if h, ok := have[key]; !ok || !same(want[key], h) {
			come = append(come, Add{want[key]})
		}
	}
	return gone, come
}

// equal is for changes of resources that are made anew when any field differs.
func equal[V comparable](w, h V) bool { return w == h }

// always is for changes of resources that are never made anew: they are there or not.
func always[V any](V, V) bool { return true }

func ownNamespaces(s State) map[string]Netns {
	list := map[string]Netns{}
	for name, id := range s.Namespaces {
		list[name] = Netns{id, name}
	}
	return list
}

// diffTables plans the rules, one transaction for each family that differs.
func diffTables(want, have State) Plan {
	var plan Plan
	for _, f := range []table.Family{table.IPv4, table.IPv6} {
		if tx := table.Diff(f.Table, want.Table(f.Table), have.Table(f.Table)); tx != nil {
			plan = append(plan, Rules{tx})
		}
	}
	return plan
}

// diffBridges plans new and changed bridges, and their addresses. Addresses to remove come first: a new one may
// overlap an old one.
func diffBridges(want, have State) Plan {
	var plan Plan
	for _, name := range slices.Sorted(maps.Keys(want.Bridges)) {
		w := want.Bridges[name]
		h, ok := have.Bridges[name]
		switch {
		case !ok:
			plan = append(plan, Add{w})
		case w.MTU != h.MTU || w.Settings != h.Settings || w.Six != h.Six:
			plan = append(plan, Set{w})
		}
		for _, a := range h.Addrs {
			if !slices.Contains(w.Addrs, a) {
				plan = append(plan, Del{BridgeAddr{ID: w.ID, Bridge: w.Name, Addr: a}})
			}
		}
		for _, a := range w.Addrs {
			if !slices.Contains(h.Addrs, a) {
				plan = append(plan, Add{BridgeAddr{w.ID, w.Name, a, w.defaultOf(a)}})
			}
		}
	}
	return plan
}

// defaultOf returns the next hop of the default route that comes with an address of the bridge.
func (b Bridge) defaultOf(addr netip.Prefix) netip.Addr {
	if table.IPv4.Usable(b.Default) && addr.Contains(b.Default) && addr.Addr() != b.Default {
		return b.Default
	}
	return netip.Addr{}
}

// diffTunnels returns what goes before anything else, and what comes once the bridges are there. A device whose
// parameters differ is made anew. The kernel deletes its peers, paths and arrivals with it, so these are not deleted
// one by one, and all are added.
func diffTunnels(want, have State) (gone, come Plan) {
	gone, come = changes(want.Tunnels, have.Tunnels, strings.Compare, equal)
	left := State{Tunnels: maps.Clone(have.Tunnels), Peers: maps.Clone(have.Peers), Paths: maps.Clone(have.Paths),
		Arrivals: maps.Clone(have.Arrivals)}
	for _, op := range gone {
		op.Record(&left, want)
	}

	peersGone, peersCome := changes(want.Peers, left.Peers, strings.Compare,
		func(w, h Peer) bool { return w.Provider == h.Provider })
	pathsGone, pathsCome := changes(want.Paths, left.Paths, strings.Compare,
		func(w, h Path) bool { return w.MAC == h.MAC })
	arrivalsGone, arrivalsCome := changes(want.Arrivals, left.Arrivals, strings.Compare, always)
	return slices.Concat(gone, pathsGone, peersGone, arrivalsGone), slices.Concat(come, peersCome, pathsCome,
		arrivalsCome)
}

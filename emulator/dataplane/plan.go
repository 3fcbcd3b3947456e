package dataplane

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Plan is an ordered list of writes; it prints itself one per line.
type Plan []Op

func (p Plan) String() string {
	var b strings.Builder
	for _, op := range p {
		b.WriteString(op.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Diff is what turns have into want. Order: ports that go, networks, rules, ports that come (so that no guest ever
// sends a packet past the rules), networks that go.
func Diff(want, have State) Plan {
	var plan Plan
	for _, name := range sortedKeys(have.Ports) {
		p := have.Ports[name]
		if w, ok := want.Ports[name]; !ok || !w.equal(p) {
			plan = append(plan, del{p})
		}
	}

	for _, name := range sortedKeys(want.Namespaces) {
		if _, ok := have.Namespaces[name]; !ok {
			plan = append(plan, add{ownNetns{want.Namespaces[name], name}})
		}
	}

	switches, unswitched := diffSwitches(want, have)
	plan = append(plan, switches...)
	gone, come := diffTunnels(want, have)
	plan = append(plan, gone...)
	for _, addr := range sortedAddrs(have.Keeps) {
		if k := have.Keeps[addr]; k != want.Keeps[addr] {
			plan = append(plan, del{k})
		}
	}

	plan = append(plan, diffBridges(want, have)...)
	plan = append(plan, come...)
	for _, addr := range sortedAddrs(want.Keeps) {
		if k := want.Keeps[addr]; k != have.Keeps[addr] {
			plan = append(plan, add{k})
		}
	}

	if tx := diffRules("ip", want.Rules, have.Rules); tx != nil {
		plan = append(plan, tx)
	}
	if tx := diffRules("ip6", want.Rules6, have.Rules6); tx != nil {
		plan = append(plan, tx)
	}
	for _, name := range sortedKeys(want.Ports) {
		p := want.Ports[name]
		if h, ok := have.Ports[name]; !ok || !p.equal(h) {
			plan = append(plan, add{p})
		}
	}

	for _, name := range sortedKeys(have.Bridges) {
		if _, ok := want.Bridges[name]; !ok {
			b := have.Bridges[name]
			plan = append(plan, del{b})
		}
	}

	plan = append(plan, unswitched...)
	for _, name := range sortedKeys(have.Namespaces) {
		if _, ok := want.Namespaces[name]; !ok {
			plan = append(plan, del{ownNetns{have.Namespaces[name], name}})
		}
	}
	return plan
}

func sortedAddrs(m map[netip.Addr]Keep) []netip.Addr {
	return slices.SortedFunc(maps.Keys(m), netip.Addr.Compare)
}

// diffBridges plans new and changed bridges, and their addresses. Addresses to remove come first: a new one may overlap an old
// one.
func diffBridges(want, have State) Plan {
	var plan Plan
	for _, name := range sortedKeys(want.Bridges) {
		w := want.Bridges[name]
		h, ok := have.Bridges[name]
		switch {
		case !ok:
			plan = append(plan, add{w})
		case w.MTU != h.MTU || w.Settings != h.Settings || w.Six != h.Six:
			plan = append(plan, set{w})
		}
		for _, a := range h.Addrs {
			if !slices.Contains(w.Addrs, a) {
				plan = append(plan, del{bridgeAddr{id: w.ID, bridge: w.Name, addr: a}})
			}
		}
		for _, a := range w.Addrs {
			if !slices.Contains(h.Addrs, a) {
				plan = append(plan, add{bridgeAddr{w.ID, w.Name, a, w.defaultOf(a)}})
			}
		}
	}
	return plan
}

// defaultOf returns the next hop of the default route that comes with an address of the bridge.
func (b Bridge) defaultOf(addr netip.Prefix) netip.Addr {
	if ip4.usable(b.Default) && addr.Contains(b.Default) && addr.Addr() != b.Default {
		return b.Default
	}
	return netip.Addr{}
}

// diffTunnels gives what goes before anything else, and what comes once the bridges are there. A device whose
// parameters differ is made again, and with it its ways.
func diffTunnels(want, have State) (gone, come Plan) {
	fresh := map[string]bool{}
	for _, name := range sortedKeys(have.Tunnels) {
		h := have.Tunnels[name]
		if w, ok := want.Tunnels[name]; !ok || w != h {
			gone, fresh[name] = append(gone, del{h}), true
		}
	}

	for _, name := range sortedKeys(want.Tunnels) {
		w := want.Tunnels[name]
		if _, ok := have.Tunnels[name]; !ok || fresh[name] {
			come = append(come, add{w})
		}
	}

	for _, key := range sortedKeys(have.Paths) {
		h := have.Paths[key]
		if w, ok := want.Paths[key]; !fresh[h.Tunnel] && (!ok || w.MAC != h.MAC) {
			gone = append(gone, del{h})
		}
	}

	for _, key := range sortedKeys(have.Peers) {
		h := have.Peers[key]
		if w, ok := want.Peers[key]; !fresh[h.Tunnel] && (!ok || w.Provider != h.Provider) {
			gone = append(gone, del{h})
		}
	}

	for _, key := range sortedKeys(want.Peers) {
		w := want.Peers[key]
		if h, ok := have.Peers[key]; !ok || fresh[w.Tunnel] || h.Provider != w.Provider {
			come = append(come, add{w})
		}
	}

	for _, key := range sortedKeys(want.Paths) {
		w := want.Paths[key]
		if h, ok := have.Paths[key]; !ok || fresh[w.Tunnel] || h.MAC != w.MAC {
			come = append(come, add{w})
		}
	}

	for _, key := range sortedKeys(have.Arrivals) {
		if h := have.Arrivals[key]; !fresh[h.Tunnel] && want.Arrivals[key] == (Arrival{}) {
			gone = append(gone, del{h})
		}
	}
	for _, key := range sortedKeys(want.Arrivals) {
		w := want.Arrivals[key]
		if _, ok := have.Arrivals[key]; !ok || fresh[w.Tunnel] {
			come = append(come, add{w})
		}
	}
	return gone, come
}

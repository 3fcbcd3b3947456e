package render

import (
	"maps"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

// portless reports whether an endpoint is nothing but an address: no port, and no way of its own.
func (r *Rendering) portless(e *desired.Endpoint) bool {
	if e == nil {
		return true
	}
	_, _, way := r.overlays.way(e)
	_, arrives := r.overlays.arrival(e)
	return !way && !arrives && (e.Remote || e.Namespace == "")
}

// Takes reports whether Change can render c: rules are there, no object is rejected, and only addresses of load
// balancers and backends differ.
func (r *Rendering) Takes(c desired.Change) bool {
	if len(r.State.Rules.Chains) == 0 || len(r.State.Rejected) > 0 {
		return false
	}
	for i := range c.Endpoints {
		if !r.portless(&c.Endpoints[i]) || !r.portless(r.host.Endpoints[c.Endpoints[i].ID]) {
			return false
		}
	}
	keeps := func(lb *desired.LoadBalancer) bool {
		return lb != nil && slices.ContainsFunc(lb.Ports, func(p desired.LBPort) bool { return p.PreserveDIP })
	}
	for i := range c.LoadBalancers {
		if lb := &c.LoadBalancers[i]; keeps(lb) || keeps(r.four.Balancers.All()[lb.ID]) {
			return false // ways of marked packets come and go with it
		}
	}
	if slices.ContainsFunc(c.GoneLoadBalancers, func(id string) bool { return keeps(r.four.Balancers.All()[id]) }) {
		return false
	}
	return !slices.ContainsFunc(c.GoneEndpoints, func(id string) bool { return !r.portless(r.host.Endpoints[id]) })
}

// Change renders c on top of what is rendered already and gives the writes for it, by family. Afterwards the state is
// that of All, but for chains that nobody uses any more. If an object was rejected, it is not:
// render again.
func (r *Rendering) Change(c desired.Change) []*table.Transaction {
	again := map[string]*desired.LoadBalancer{}
	moved := func(id string) {
		for _, x := range r.Families() {
			for lb := range x.Balancers.UsersOf(id) {
				again[lb] = x.Balancers.All()[lb]
			}
		}
	}

	for i := range c.Endpoints {
		kept := c.Endpoints[i]
		if old := r.host.Endpoints[kept.ID]; old == nil || !slices.Equal(old.Addrs, kept.Addrs) {
			moved(kept.ID)
		}
		r.host.Endpoints[kept.ID] = &kept
	}

	for _, id := range c.GoneEndpoints {
		moved(id)
		delete(r.host.Endpoints, id)
	}

	for i := range c.LoadBalancers {
		again[c.LoadBalancers[i].ID] = &c.LoadBalancers[i]
	}
	for _, id := range c.GoneLoadBalancers {
		delete(again, id)
	}
	var txs []*table.Transaction
	for _, x := range r.Families() {
		x.StartChange()
		for _, id := range slices.Concat(c.GoneLoadBalancers, slices.Sorted(maps.Keys(again))) {
			x.Balancers.Remove(id)
		}
	}

	for _, id := range slices.Sorted(maps.Keys(again)) {
		r.balance(again[id])
	}
	for _, x := range r.Families() {
		txs = append(txs, x.EndChange())
	}
	return txs
}

// KeepChains adds to want the chains that small changes left for the next load balancer.
func (r *Rendering) KeepChains(want *kernel.State) {
	for to, from := range map[*table.Ruleset]table.Ruleset{&want.Rules: r.State.Rules, &want.Rules6: r.State.Rules6} {
		for name, c := range from.Chains {
			if _, ok := to.Chains[name]; !ok &&
				(strings.HasPrefix(name, table.EP+"_") || strings.HasPrefix(name, table.NPEP+"_") ||
					strings.HasPrefix(name, table.Keep+"_")) {
				to.Chains[name] = c
			}
		}
	}
}

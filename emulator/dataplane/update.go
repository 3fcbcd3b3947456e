package dataplane

import (
	"fmt"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/desired"
)

// removeBalancer takes a load balancer's elements away. Chains stay, for the next one that needs them.
func (r *renderer) removeBalancer(id string) {
	for _, at := range r.owned[id] {
		if at.set == setSnats {
			if r.shared[at.key]--; r.shared[at.key] > 0 {
				continue
			}
		}
		r.touch(at)
		delete(r.state.Rules.Sets[at.set].Elems, at.key)
	}
	delete(r.owned, id)
	if lb := r.balancers[id]; lb != nil {
		for _, b := range lb.Backends {
			delete(r.users[b], id)
		}
	}
	delete(r.balancers, id)
}

// portless reports whether an endpoint is nothing but an address: no port, and no way of its own.
func (r *renderer) portless(e *desired.Endpoint) bool {
	if e == nil {
		return true
	}
	_, _, way := r.way(e)
	_, arrives := arrival(r, e)
	return !way && !arrives && (e.Remote || e.Namespace == "")
}

// takes reports whether change can render c: rules are there, no object is rejected, and only addresses of load
// balancers and backends differ.
func (r *renderer) takes(c desired.Change) bool {
	if len(r.state.Rules.Chains) == 0 || len(r.state.Rejected) > 0 {
		return false
	}
	for i := range c.Endpoints {
		if !r.portless(&c.Endpoints[i]) || !r.portless(r.endpoints[c.Endpoints[i].ID]) {
			return false
		}
	}
	keeps := func(lb *desired.LoadBalancer) bool {
		return lb != nil && slices.ContainsFunc(lb.Ports, func(p desired.LBPort) bool { return p.PreserveDIP })
	}
	for i := range c.LoadBalancers {
		if lb := &c.LoadBalancers[i]; keeps(lb) || keeps(r.balancers[lb.ID]) {
			return false // ways of marked packets come and go with it
		}
	}
	if slices.ContainsFunc(c.GoneLoadBalancers, func(id string) bool { return keeps(r.balancers[id]) }) {
		return false
	}
	return !slices.ContainsFunc(c.GoneEndpoints, func(id string) bool { return !r.portless(r.endpoints[id]) })
}

// change renders c on top of what is rendered already and gives the writes for it, by family. Afterwards the state is
// that of a Render of everything, but for chains that nobody uses any more. If an object was rejected, it is not:
// render again.
func (r *renderer) change(c desired.Change) []*Transaction {
	again := map[string]*desired.LoadBalancer{}
	moved := func(id string) {
		for _, x := range r.families() {
			for lb := range x.users[id] {
				again[lb] = x.balancers[lb]
			}
		}
	}

	for i := range c.Endpoints {
		kept := c.Endpoints[i]
		if old := r.endpoints[kept.ID]; old == nil || !slices.Equal(old.Addrs, kept.Addrs) {
			moved(kept.ID)
		}
		r.endpoints[kept.ID] = &kept
	}

	for _, id := range c.GoneEndpoints {
		moved(id)
		delete(r.endpoints, id)
	}

	for i := range c.LoadBalancers {
		again[c.LoadBalancers[i].ID] = &c.LoadBalancers[i]
	}
	for _, id := range c.GoneLoadBalancers {
		delete(again, id)
	}
	var txs []*Transaction
	for _, x := range r.families() {
		x.before, x.chains = map[place]*string{}, nil
		for _, id := range slices.Concat(c.GoneLoadBalancers, sortedKeys(again)) {
			x.removeBalancer(id)
		}
	}

	for _, id := range sortedKeys(again) {
		r.balance(again[id])
	}
	for _, x := range r.families() {
		txs = append(txs, x.transaction())
		x.before = nil
	}
	return txs
}

// transaction compares the places that were touched with what is there now.
func (r *renderer) transaction() *Transaction {
	tx := &Transaction{Table: r.fam.table}
	changed := map[string]bool{}
	for at, before := range r.before {
		now, ok := r.state.Rules.Sets[at.set].Elems[at.key]
		if ok == (before != nil) && (!ok || now == *before) {
			continue
		}
		if before != nil {
			tx.gone = append(tx.gone, element{place: at})
		}
		if ok {
			tx.come = append(tx.come, element{at, now})
		}
		if f := udpFrontend(at.set, at.key); f != "" {
			changed[f] = true
		}
	}

	order := func(a, b element) int {
		if a.set != b.set {
			return strings.Compare(a.set, b.set)
		}
		return strings.Compare(a.key, b.key)
	}

	slices.SortFunc(tx.gone, order)
	slices.SortFunc(tx.come, order)
	slices.Sort(r.chains)
	for _, name := range r.chains {
		tx.Lines = append(tx.Lines, "add chain "+tx.Table+" hns "+name)
	}
	for _, name := range r.chains {
		for _, rule := range r.state.Rules.Chains[name].Rules {
			tx.Lines = append(tx.Lines,
				fmt.Sprintf("add rule %s hns %s %s comment %q", tx.Table, name, rule, ruleSum(rule)))
		}
	}

	tx.Frontends = sortedKeys(changed)
	return tx
}

// keepChains adds the chains that small changes left for the next load balancer.
func (s *State) keepChains(live State) {
	for to, from := range map[*Ruleset]Ruleset{&s.Rules: live.Rules, &s.Rules6: live.Rules6} {
		for name, c := range from.Chains {
			if _, ok := to.Chains[name]; !ok &&
				(strings.HasPrefix(name, setEP+"_") || strings.HasPrefix(name, setNPEP+"_") ||
					strings.HasPrefix(name, setKeep+"_")) {
				to.Chains[name] = c
			}
		}
	}
}

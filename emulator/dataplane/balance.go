package dataplane

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"

	"porthole.dev/porthole/emulator/desired"
)

type backend struct {
	addr netip.Addr
	id   string
}

// balance renders a load balancer in the table of its family.
func (r *renderer) balance(lb *desired.LoadBalancer) {
	switch {
	case !lb.IPv6:
		r.loadBalancer(lb)
	case r.six != nil:
		r.six.loadBalancer(lb)
	}
}

// loadBalancer renders one load balancer:
//
//	frontend map:  VIP . proto . port          -> goto lb_<pick>_<source>
//	the chain:     mark = index by pick; dnat to the element VIP . proto . port . mark of ep
//
// With session affinity the index is the backend's own number. The map of slots says which backend has a slot of the
// source hash, and the map stick which one a client has already: it stays there when others come.
//
// The chains are shared by all balancers with the same number of backends and the same kind of distribution.
func (r *renderer) loadBalancer(lb *desired.LoadBalancer) {
	r.owner = lb.ID
	defer func() { r.owner = "" }()
	kept := *lb // the caller may change its own
	r.balancers[lb.ID] = &kept
	for _, b := range lb.Backends {
		if r.users[b] == nil {
			r.users[b] = map[string]bool{}
		}
		r.users[b][lb.ID] = true
	}

	var backends []backend
	for _, id := range lb.Backends {
		if e, ok := r.endpoints[id]; ok && r.fam.addressOf(e).IsValid() {
			backends = append(backends, backend{r.fam.addressOf(e), id})
		}
	}
	if len(backends) == 0 {
		return
	}
	for _, p := range lb.Ports {
		if p.Protocol != 6 && p.Protocol != 17 {
			r.state.Rejected[lb.ID] = fmt.Errorf("load balancer %s: protocol %d cannot be balanced", lb.ID, p.Protocol)
			continue
		}
		port := fmt.Sprintf("%d . %d", p.Protocol, p.ExternalPort)
		if len(lb.VIPs) == 0 {
			r.frontend(lb, p, frontendSpec{sets: []string{setNP}, eps: setNPEP, key: port}, backends)
		}
		for _, vip := range lb.VIPs {
			if !r.fam.has(vip) {
				continue
			}
			spec := frontendSpec{sets: []string{setSvc}, eps: setEP, key: vip.String() + " . " + port}
			if lb.DSR {
				spec.sets = []string{setDSR}
			}
			if p.VIPExternalIP || p.LocalRoutedVIP {
				spec.sets = append(spec.sets, setExt)
			}
			if p.PreserveDIP && lb.DSR && r.fam == ip4 {
				r.keep(lb, p, spec, backends)
				continue
			}
			r.frontend(lb, p, spec, backends)
		}
	}
}

// keep renders a frontend whose packets keep their destination and are led to a pod of this host, which must have the
// frontend's address itself. There is no translation: a mark of the connection remembers the pod.
func (r *renderer) keep(lb *desired.LoadBalancer, p desired.LBPort, spec frontendSpec, backends []backend) {
	var local []backend
	for _, b := range backends {
		e := r.endpoints[b.id]
		ns := r.namespaces[e.Namespace]
		if n := r.networks[e.Network]; n != nil && ns != nil && !e.Remote && !ns.Host {
			local = append(local, b)
			r.state.Keeps[b.addr] = Keep{ID: b.id, Bridge: bridgeName(n.ID), Addr: b.addr}
			mark := strconv.FormatUint(uint64(r.fam.mark(b.addr)), 10)
			r.state.Rules.Sets[setKeeps].Elems[mark] = mark
		}
	}
	if len(local) == 0 {
		return
	}
	if _, taken := r.state.Rules.Sets[setKeep].Elems[spec.key+" . 0"]; taken {
		r.state.Rejected[lb.ID] = fmt.Errorf("load balancer %s: frontend %s is taken", lb.ID, spec.key)
		return
	}

	name, expr := fmt.Sprintf("keep_r%d", len(local)), fmt.Sprintf("numgen random mod %d", len(local))
	if p.Distribution != 0 {
		name, expr, local = "keep_h", fmt.Sprintf("jhash ip saddr mod %d seed 0x706f7274",
			affinitySlots), affinity(lb.ID, local)
	}
	r.pick(name, []string{"meta mark set " + expr,
		balanced + "ct mark set " + frontend + " . meta mark map @" + setKeep, "meta mark set ct mark", "accept"})
	for _, set := range spec.sets {
		r.elem(set, spec.key, "goto "+name)
	}
	for i, b := range local {
		r.elem(setKeep, spec.key+" . "+strconv.Itoa(i), strconv.FormatUint(uint64(r.fam.mark(b.addr)), 10))
	}
}

type frontendSpec struct {
	sets []string
	eps  string
	key  string
}

// frontend renders one frontend of a load balancer: an element that leads its packets to a chain, and the backends
// among which that chain chooses. Without affinity the chain chooses a backend by its position. With affinity it
// chooses a slot by the client's address, and the slot names the backend (see affinity). A frontend that another load
// balancer has is rejected.
func (r *renderer) frontend(lb *desired.LoadBalancer, p desired.LBPort, spec frontendSpec, backends []backend) {
	slots := setSlots
	if spec.eps == setNPEP {
		slots = setNPSlots
	}
	// One of the two exists for every frontend, whichever its maps.
	_, taken := r.state.Rules.Sets[spec.eps].Elems[spec.key+" . 0"]
	_, sticky := r.state.Rules.Sets[slots].Elems[spec.key+" . 0"]
	if taken || sticky {
		r.state.Rejected[lb.ID] = fmt.Errorf("load balancer %s: frontend %s is taken", lb.ID, spec.key)
		return
	}
	chain := r.pickChain(lb, p, spec.eps, len(backends))
	for _, set := range spec.sets {
		r.elem(set, spec.key, "goto "+chain)
	}
	to := " . " + strconv.Itoa(int(p.InternalPort))
	if p.Distribution == 0 {
		for i, b := range backends {
			r.elem(spec.eps, spec.key+" . "+strconv.Itoa(i), b.addr.String()+to)
		}
		return
	}

	number := func(b backend) string { return strconv.FormatUint(uint64(r.fam.mark(b.addr)), 10) }
	for _, b := range backends {
		r.elem(spec.eps, spec.key+" . "+number(b), b.addr.String()+to)
	}
	for i, b := range affinity(lb.ID, backends) {
		r.elem(slots, spec.key+" . "+strconv.Itoa(i), number(b))
	}
}

// pickChain adds the chain that picks a backend and returns its name.
func (r *renderer) pickChain(lb *desired.LoadBalancer, p desired.LBPort, eps string, n int) string {
	var pick, expr string
	switch p.Distribution {
	case 0:
		pick, expr = fmt.Sprintf("r%d", n), fmt.Sprintf("numgen random mod %d", n)
	case 1:
		pick, expr = "h1", fmt.Sprintf("jhash ip saddr . meta l4proto mod %d seed 0x706f7274", affinitySlots)
	default:
		pick, expr = "h2", fmt.Sprintf("jhash ip saddr mod %d seed 0x706f7274", affinitySlots)
	}

	name, rules := fmt.Sprintf("%s_%s_dsr", eps, pick), []string(nil)
	if !lb.DSR {
		source := r.fam.node(r.facts)
		if r.fam.usable(lb.SourceVIP) {
			source = lb.SourceVIP
		}
		mark := r.snatMark(source)
		name, rules = fmt.Sprintf("%s_%s_%s", eps, pick, mark[2:]), []string{"ct mark set " + mark}
	}

	key, slots := frontend, setSlots
	if eps == setNPEP {
		key, slots = "meta l4proto . th dport", setNPSlots
	}
	dnat := balanced + "dnat to " + key + " . meta mark map @" + eps
	// nft has no registers for two IPv6 addresses (seen with 1.0.6): there a new backend takes over some clients.
	const client = "ip saddr . ip daddr . meta l4proto . th dport"
	learns := p.Distribution != 0 && r.fam == ip4
	if learns {
		rules = append(rules, balanced+"meta mark set "+client+" map @"+setStick, dnat)
	}
	rules = append(rules, "meta mark set "+expr)
	if p.Distribution != 0 {
		rules = append(rules, balanced+"meta mark set "+key+" . meta mark map @"+slots)
	}
	if learns {
		rules = append(rules, balanced+"update @"+setStick+" { "+client+" : meta mark }")
	}
	rules = append(rules, dnat)
	r.pick(name, rules)
	return name
}

// affinity gives each slot of the source hash to a backend by highest random weight: when a backend goes, only its own
// slots move.
func affinity(lb string, backends []backend) []backend {
	slots := make([]backend, affinitySlots)
	for i := range slots {
		best := uint64(0)
		for _, b := range backends {
			h := fnv.New64a()
			fmt.Fprintf(h, "%d/%s/%s", i, b.id, lb)
			if w := mix(h.Sum64()); w >= best {
				best, slots[i] = w, b
			}
		}
	}
	return slots
}

// mix spreads the bits of an FNV sum, whose high bits depend little on the last bytes.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

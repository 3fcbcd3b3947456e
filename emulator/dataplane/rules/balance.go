package rules

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

// Balancers are the load balancers of one family, with who uses what, so that one can change alone.
type Balancers struct {
	Keeps map[netip.Addr]kernel.Keep // ways of packets that keep their destination, by the pod's address

	draft *table.Draft
	host  *Host
	all   map[string]*desired.LoadBalancer
	users map[string]map[string]bool // by endpoint: the load balancers that name it
}

func newBalancers(d *table.Draft, h *Host) *Balancers {
	return &Balancers{Keeps: map[netip.Addr]kernel.Keep{}, draft: d, host: h,
		all: map[string]*desired.LoadBalancer{}, users: map[string]map[string]bool{}}
}

// All are the load balancers by id. The caller changes nothing of them.
func (b *Balancers) All() map[string]*desired.LoadBalancer { return b.all }

// UsersOf returns the ids of the load balancers that name an endpoint as their backend.
func (b *Balancers) UsersOf(endpoint string) map[string]bool { return b.users[endpoint] }

// Remove takes a load balancer's elements away. Chains stay, for the next one that needs them.
func (b *Balancers) Remove(id string) {
	b.draft.Remove(id)
	if lb := b.all[id]; lb != nil {
		for _, backend := range lb.Backends {
			delete(b.users[backend], id)
		}
	}
	delete(b.all, id)
}

// affinitySlots is how many slots the hash of a client's address has.
const affinitySlots = 256

type backend struct {
	addr netip.Addr
	id   string
}

// Render renders one load balancer:
//
//	frontend map:  VIP . proto . port          -> goto lb_<pick>_<source>
//	the chain:     mark = index by pick; dnat to the element VIP . proto . port . mark of ep
//
// With session affinity the index is the backend's own number. The map of slots says which backend has a slot of the
// source hash, and the map stick which one a client has already: it stays there when others come.
//
// The chains are shared by all balancers with the same number of backends and the same kind of distribution.
func (b *Balancers) Render(lb *desired.LoadBalancer) {
	kept := *lb // the caller may change its own
	b.all[lb.ID] = &kept
	for _, id := range lb.Backends {
		if b.users[id] == nil {
			b.users[id] = map[string]bool{}
		}
		b.users[id][lb.ID] = true
	}

	var backends []backend
	for _, id := range lb.Backends {
		if e, ok := b.host.Endpoints[id]; ok {
			if addr := b.draft.Family.First(e.Addrs); addr.IsValid() {
				backends = append(backends, backend{addr, id})
			}
		}
	}
	if len(backends) > 0 {
		b.draft.For(lb.ID, func() { b.frontends(lb, backends) })
	}
}

// frontends renders each address and port of a load balancer.
func (b *Balancers) frontends(lb *desired.LoadBalancer, backends []backend) {
	for _, p := range lb.Ports {
		if p.Protocol != 6 && p.Protocol != 17 {
			b.host.Rejected[lb.ID] = fmt.Errorf("load balancer %s: protocol %d cannot be balanced", lb.ID, p.Protocol)
			continue
		}
		port := fmt.Sprintf("%d . %d", p.Protocol, p.ExternalPort)
		if len(lb.VIPs) == 0 {
			b.frontend(lb, p, frontendSpec{sets: []string{table.NP}, eps: table.NPEP, key: port}, backends)
		}

		for _, vip := range lb.VIPs {
			if !b.draft.Family.Has(vip) {
				continue
			}
			spec := frontendSpec{sets: []string{table.Svc}, eps: table.EP, key: vip.String() + " . " + port}
			if lb.DSR {
				spec.sets = []string{table.DSR}
			}
			if p.VIPExternalIP || p.LocalRoutedVIP {
				spec.sets = append(spec.sets, table.Ext)
			}
			if p.PreserveDIP && lb.DSR && b.draft.Family == table.IPv4 {
				b.keep(lb, p, spec, backends)
				continue
			}
			b.frontend(lb, p, spec, backends)
		}
	}
}

// keep renders a frontend whose packets keep their destination and are led to a pod of this host, which must have the
// frontend's address itself. There is no translation: a mark of the connection remembers the pod.
func (b *Balancers) keep(lb *desired.LoadBalancer, p desired.LBPort, spec frontendSpec, backends []backend) {
	var local []backend
	for _, x := range backends {
		if bridge := b.host.bridge(x.id); bridge != "" {
			local = append(local, x)
			b.Keeps[x.addr] = kernel.Keep{ID: x.id, Bridge: bridge, Addr: x.addr}
			b.draft.Rules.Sets[table.Keeps].Elems[b.number(x)] = b.number(x)
		}
	}
	if len(local) == 0 {
		return
	}
	if _, taken := b.draft.At(table.Place{Set: table.Keep, Key: spec.key + " . 0"}); taken {
		b.host.Rejected[lb.ID] = fmt.Errorf("load balancer %s: frontend %s is taken", lb.ID, spec.key)
		return
	}

	name, expr := fmt.Sprintf("keep_r%d", len(local)), fmt.Sprintf("numgen random mod %d", len(local))
	if p.Distribution != 0 {
		name, expr, local = "keep_h", fmt.Sprintf("jhash ip saddr mod %d seed 0x706f7274",
			affinitySlots), affinity(lb.ID, local)
	}
	b.draft.Share(name, []string{"meta mark set " + expr,
		table.Balanced + "ct mark set " + table.Frontend + " . meta mark map @" + table.Keep, "meta mark set ct mark",
		"accept"})
	for _, set := range spec.sets {
		b.draft.Put(set, spec.key, "goto "+name)
	}
	for i, x := range local {
		b.draft.Put(table.Keep, spec.key+" . "+strconv.Itoa(i), b.number(x))
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
func (b *Balancers) frontend(lb *desired.LoadBalancer, p desired.LBPort, spec frontendSpec, backends []backend) {
	slots := table.Slots
	if spec.eps == table.NPEP {
		slots = table.NPSlots
	}
	// One of the two exists for every frontend, whichever its maps.
	_, taken := b.draft.At(table.Place{Set: spec.eps, Key: spec.key + " . 0"})
	_, sticky := b.draft.At(table.Place{Set: slots, Key: spec.key + " . 0"})
	if taken || sticky {
		b.host.Rejected[lb.ID] = fmt.Errorf("load balancer %s: frontend %s is taken", lb.ID, spec.key)
		return
	}
	chain := b.pickChain(lb, p, spec.eps, len(backends))
	for _, set := range spec.sets {
		b.draft.Put(set, spec.key, "goto "+chain)
	}
	to := " . " + strconv.Itoa(int(p.InternalPort))
	if p.Distribution == 0 {
		for i, x := range backends {
			b.draft.Put(spec.eps, spec.key+" . "+strconv.Itoa(i), x.addr.String()+to)
		}
		return
	}

	for _, x := range backends {
		b.draft.Put(spec.eps, spec.key+" . "+b.number(x), x.addr.String()+to)
	}
	for i, x := range affinity(lb.ID, backends) {
		b.draft.Put(slots, spec.key+" . "+strconv.Itoa(i), b.number(x))
	}
}

// number is the mark of a backend's address, as nft writes it.
func (b *Balancers) number(x backend) string {
	return strconv.FormatUint(uint64(b.draft.Family.Mark(x.addr)), 10)
}

// snatMark is the connection mark that makes postrouting use addr as the source.
func (b *Balancers) snatMark(addr netip.Addr) string {
	n := b.draft.Family.Mark(addr)
	b.draft.Put(table.Snats, fmt.Sprint(n), addr.String())
	return fmt.Sprintf("0x%08x", n)
}

// pickChain adds the chain that picks a backend and returns its name.
func (b *Balancers) pickChain(lb *desired.LoadBalancer, p desired.LBPort, eps string, n int) string {
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
		source := b.host.node(b.draft.Family)
		if b.draft.Family.Usable(lb.SourceVIP) {
			source = lb.SourceVIP
		}
		mark := b.snatMark(source)
		name, rules = fmt.Sprintf("%s_%s_%s", eps, pick, mark[2:]), []string{"ct mark set " + mark}
	}

	key, slots := table.Frontend, table.Slots
	if eps == table.NPEP {
		key, slots = "meta l4proto . th dport", table.NPSlots
	}
	dnat := table.Balanced + "dnat to " + key + " . meta mark map @" + eps
	// nft has no registers for two IPv6 addresses (seen with 1.0.6): there a new backend takes over some clients.
	const client = "ip saddr . ip daddr . meta l4proto . th dport"
	learns := p.Distribution != 0 && b.draft.Family == table.IPv4
	if learns {
		rules = append(rules, table.Balanced+"meta mark set "+client+" map @"+table.Stick, dnat)
	}
	rules = append(rules, "meta mark set "+expr)
	if p.Distribution != 0 {
		rules = append(rules, table.Balanced+"meta mark set "+key+" . meta mark map @"+slots)
	}
	if learns {
		rules = append(rules, table.Balanced+"update @"+table.Stick+" { "+client+" : meta mark }")
	}
	rules = append(rules, dnat)
	b.draft.Share(name, rules)
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

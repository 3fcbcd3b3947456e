package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"porthole.dev/porthole/emulator/desired"
)

// baseRules renders the chains that every host has, and the empty sets that they look up. Objects of HNS only add
// elements to the sets and small chains of their own, so that a change of one object changes little. The first map of
// a chain that has the packet decides, so the order of the lines matters.
func (r *renderer) baseRules() {
	for name := range setTypes {
		r.state.Rules.Sets[name] = Set{Type: r.fam.setType(name), Counted: slices.Contains(counted, name),
			Elems: map[string]string{}}
	}
	chain := func(name, base string, rules ...string) {
		r.state.Rules.Chains[name] = Chain{Base: base, Rules: r.fam.words(rules)}
	}
	up := fmt.Sprintf("%q", r.facts.Uplink)
	chain("prerouting", "type nat hook prerouting priority -100",
		"fib daddr type local ip daddr != 127.0.0.0/8 goto local",
		`iifname "hnsb*" goto frompod`,
		balanced+frontend+" vmap @"+setExt)

	chain("keepmark", "type filter hook prerouting priority -150",
		"ct direction original meta mark set ct mark map @"+setKeeps)
	chain("frompod", "",
		balanced+frontend+" vmap @"+setDSR,
		"ip saddr vmap @"+setSDN,
		balanced+frontend+" vmap @"+setExt)

	chain("local", "",
		balanced+"dnat to "+frontend+" map @"+setHostPortVIP,
		balanced+"dnat to meta l4proto . th dport map @"+setHostPort,
		balanced+"meta l4proto . th dport vmap @"+setNP,
		// a load balancer may have an address of the node as its frontend
		balanced+frontend+" vmap @"+setDSR,
		balanced+frontend+" vmap @"+setSvc)

	chain("output", "type nat hook output priority -100",
		balanced+frontend+" vmap @"+setDSR,
		balanced+frontend+" vmap @"+setSvc)
	post := []string{"snat to ct mark map @" + setSnats}
	if node := r.fam.node(r.facts); node.IsValid() {
		post = append(post, "ip saddr . ip daddr @"+setLoop+" snat to "+node.String())
	}
	chain("postrouting", "type nat hook postrouting priority 100",
		append(post, "oifname "+up+" ip saddr vmap @"+setNat)...)
	established := "ct state established,related return"
	forward, output := r.fences()
	chain("aclforward", "type filter hook forward priority 0",
		append(forward, established, "ip saddr vmap @"+setACLOut, "ip daddr vmap @"+setACLIn)...)
	local := []string{established}
	if r.fam == ip6 {
		local = append(local, "icmpv6 type { 135, 136 } return") // finding neighbours is no traffic
		output = append(output, "icmpv6 type 137 drop")          // a redirect would send pods to each other directly
	}
	chain("aclinput", "type filter hook input priority 0", append(local, "ip saddr vmap @"+setACLOut)...)
	// A closed NodePort does not answer, as with the Windows firewall. A refusal of a first packet has sequence 0.
	closed := fmt.Sprintf("oifname %s tcp sport %d-%d tcp flags == rst|ack tcp sequence 0 drop", up, nodePortFirst,
		nodePortLast)
	chain("acloutput", "type filter hook output priority 0",
		slices.Concat([]string{closed}, output, local, []string{"ip daddr vmap @" + setACLIn})...)
}

// own adds a chain for one endpoint and one purpose alone, so that its rules count what that endpoint does, and
// returns the name. prefix names the purpose. The name changes with the content: a change is a new chain and one
// element.
func (f family) own(rs Ruleset, prefix, endpoint string, rules []string) string {
	rules = f.words(rules)
	name := prefix + "_" + shortSum(endpoint+"\n"+strings.Join(rules, "\n"), 12)
	rs.Chains[name] = Chain{Rules: rules}
	return name
}

// snatMark is the connection mark that makes postrouting use addr as the source.
func (r *renderer) snatMark(addr netip.Addr) string {
	n := r.fam.mark(addr)
	r.elem(setSnats, fmt.Sprint(n), addr.String())
	return fmt.Sprintf("0x%08x", n)
}

// policies renders the policies of an endpoint for one of its addresses. A port mapping whose port another endpoint
// has is rejected; the endpoint's other policies count all the same.
func (r *renderer) policies(e *desired.Endpoint, addr netip.Addr) {
	if e.OutboundNAT != nil {
		r.outboundNAT(e, addr)
	}
	var routes []netip.Prefix
	for _, s := range e.SDNRoutes {
		routes = append(routes, s.Destination)
	}
	if len(routes) > 0 {
		name := r.fam.own(r.state.Rules, "sdn", e.ID,
			[]string{r.fam.matchPrefixes("ip daddr", routes) + "counter " + balanced + frontend + " vmap @" + setSvc})
		r.elem(setSDN, addr.String(), "jump "+name)
	}
	for _, m := range e.PortMappings {
		at, value, ok := r.fam.mapping(m, addr)
		if !ok {
			continue
		}
		if other, taken := r.state.Rules.Sets[at.set].Elems[at.key]; taken && other != value {
			r.state.Rejected[e.ID] = fmt.Errorf("mapping port %d of endpoint %s: the port is taken", m.ExternalPort,
				e.ID)
			continue
		}
		r.elem(at.set, at.key, value)
		if m.LocalRouted {
			r.localRouted(e.ID, m, addr)
		}
	}

	r.acls(e, addr, true)
	r.acls(e, addr, false)
}

// mapping returns the element of a port mapping of an endpoint's addr. ok is false if its VIP is of another family.
func (f family) mapping(m desired.PortMapping, addr netip.Addr) (at place, value string, ok bool) {
	at, value = place{setHostPort, fmt.Sprintf("%d . %d", m.Protocol, m.ExternalPort)}, fmt.Sprintf("%s . %d", addr,
		m.InternalPort)
	if m.VIP.IsValid() && !m.VIP.IsUnspecified() {
		return place{setHostPortVIP, m.VIP.String() + " . " + at.key}, value, f.has(m.VIP)
	}
	return at, value, true
}

// localRouted leads programs of the host to a port mapping of an endpoint's addr, at the mapping's address or the
// node's: HNS gives the host a route for it, which makes its packets reach the switch.
func (r *renderer) localRouted(endpoint string, m desired.PortMapping, addr netip.Addr) {
	at := m.VIP
	if !at.IsValid() || at.IsUnspecified() {
		at = r.fam.node(r.facts)
	}
	if at.IsValid() {
		name := r.fam.own(r.state.Rules, "hp", endpoint,
			[]string{fmt.Sprintf("meta l4proto %d dnat to %s", m.Protocol, netip.AddrPortFrom(addr, m.InternalPort))})
		r.elem(setSvc, fmt.Sprintf("%s . %d . %d", at, m.Protocol, m.ExternalPort), "goto "+name)
	}
}

func (r *renderer) outboundNAT(e *desired.Endpoint, addr netip.Addr) {
	rules, loops := r.fam.natRules(e, addr, r.facts)
	if loops {
		r.elem(setLoop, fmt.Sprintf("%s . %s", addr, addr), "")
	}
	if len(rules) == 0 {
		return
	}

	var lines []string
	for _, n := range rules {
		line := ""
		if len(n.to) > 0 {
			line = r.fam.matchPrefixes("ip daddr", n.to)
		}
		if n.source.IsValid() {
			line += "counter snat to " + n.source.String()
		} else {
			line += "counter return"
		}
		lines = append(lines, line)
	}
	r.elem(setNat, addr.String(), "goto "+r.fam.own(r.state.Rules, "nat", e.ID, lines))
}

// natRule is one rule of an endpoint's outbound NAT.
type natRule struct {
	to     []netip.Prefix // destinations; none: all
	source netip.Addr     // what the packets get as their source; zero: they stay as they are
}

// natRules returns the rules of outbound NAT of an endpoint's addr, of which the first that matches counts, and
// whether the endpoint reaches itself through a load balancer (loopback DSR): that is a policy whose destination is
// the endpoint. A policy with other destinations is an addition; the exceptions are those of all policies together.
func (f family) natRules(e *desired.Endpoint, addr netip.Addr, facts Facts) (rules []natRule, loops bool) {
	var exceptions []netip.Prefix
	var general netip.Addr
	for _, o := range e.OutboundNAT {
		exceptions = append(exceptions, o.Exceptions...)
		source := f.node(facts)
		if f.usable(o.VirtualIP) {
			source = o.VirtualIP
		}
		if !source.IsValid() {
			continue
		}
		if len(o.Destinations) == 0 {
			general = source
			continue
		}

		self := func(p netip.Prefix) bool { return p.IsSingleIP() && p.Addr() == addr }
		loops = loops || slices.ContainsFunc(o.Destinations, self)
		if others := slices.DeleteFunc(slices.Clone(o.Destinations), self); len(others) > 0 {
			rules = append(rules, natRule{to: others, source: source})
		}
	}

	if len(rules) == 0 && !general.IsValid() {
		return nil, loops
	}
	if len(exceptions) > 0 {
		rules = append(rules, natRule{to: exceptions})
	}
	if general.IsValid() {
		rules = append(rules, natRule{source: general})
	}
	return rules, loops
}

// acls renders one direction: lower priority number first, and what no rule names is allowed.
func (r *renderer) acls(e *desired.Endpoint, addr netip.Addr, in bool) {
	acls := sortedACLs(e.ACLs, in)
	if len(acls) == 0 {
		return
	}
	var rules []string
	for _, a := range acls {
		rules = append(rules, r.fam.aclRule(a))
	}
	set := setACLOut
	if in {
		set = setACLIn
	}
	r.elem(set, addr.String(), "jump "+r.fam.own(r.state.Rules, set, e.ID, rules))
}

// aclRule returns the nft rule of one ACL. "Local" is the pod's side, which is the source on the way out and the
// destination on the way in. Ports need a protocol that has some.
func (f family) aclRule(a desired.ACL) string {
	local, remote, localPort, remotePort := "ip saddr", "ip daddr", "th sport", "th dport"
	if a.In {
		local, remote, localPort, remotePort = remote, local, remotePort, localPort
	}
	rule := ""
	if len(a.Local) > 0 {
		rule += f.matchPrefixes(local, a.Local)
	}
	if len(a.Remote) > 0 {
		rule += f.matchPrefixes(remote, a.Remote)
	}
	if len(a.Protocols) > 0 {
		rule += fmt.Sprintf("meta l4proto { %s } ", list(a.Protocols))
	} else if len(a.LocalPorts)+len(a.RemotePorts) > 0 {
		rule += balanced
	}
	rule += matchPorts(localPort, a.LocalPorts) + matchPorts(remotePort, a.RemotePorts)
	if a.Allow {
		return rule + "counter return"
	}
	return rule + "counter drop"
}

// matchPorts returns the nft match of a port field, "" for no ranges, which match all. It merges ranges that overlap
// or touch, because nft refuses a set with overlapping ranges.
func matchPorts(field string, ranges []desired.PortRange) string {
	if len(ranges) == 0 {
		return ""
	}
	sorted := slices.Clone(ranges)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].First < sorted[j].First })
	var merged []desired.PortRange
	for _, p := range sorted {
		p.Last = max(p.Last, p.First)
		if n := len(merged); n > 0 && int(p.First) <= int(merged[n-1].Last)+1 {
			merged[n-1].Last = max(merged[n-1].Last, p.Last)
			continue
		}
		merged = append(merged, p)
	}

	var words []string
	for _, p := range merged {
		if p.First == p.Last {
			words = append(words, fmt.Sprint(p.First))
		} else {
			words = append(words, fmt.Sprintf("%d-%d", p.First, p.Last))
		}
	}
	return fmt.Sprintf("%s { %s } ", field, strings.Join(words, ", "))
}

// matchPrefixes matches field against the family's prefixes, each of which is in no other (nft refuses overlaps). It is
// empty when everything matches, and matches nothing when there is no prefix of the family.
func (f family) matchPrefixes(field string, prefixes []netip.Prefix) string {
	var ours []netip.Prefix
	for _, p := range prefixes {
		if p.IsValid() && f.has(p.Addr()) {
			ours = append(ours, p.Masked())
		}
	}

	slices.SortFunc(ours, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})

	var kept []netip.Prefix
	for _, p := range ours {
		if !slices.ContainsFunc(kept, func(k netip.Prefix) bool { return k.Contains(p.Addr()) }) {
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 {
		return field + " " + f.none + " "
	}
	if kept[0].Bits() == 0 {
		return ""
	}
	return fmt.Sprintf("%s { %s } ", field, list(kept))
}

func list[T any](items []T) string {
	words := make([]string, len(items))
	for i, it := range items {
		words[i] = fmt.Sprint(it)
	}
	return strings.Join(words, ", ")
}

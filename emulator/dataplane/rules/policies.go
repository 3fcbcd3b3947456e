package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"sort"

	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

// Policies renders the policies of an endpoint for one of its addresses. A port mapping whose port another endpoint
// has is rejected; the endpoint's other policies count all the same.
func (t *Table) Policies(e *desired.Endpoint, addr netip.Addr) {
	if e.OutboundNAT != nil {
		t.outboundNAT(e, addr)
	}
	var routes []netip.Prefix
	for _, s := range e.SDNRoutes {
		routes = append(routes, s.Destination)
	}
	if len(routes) > 0 {
		rule := t.Family.MatchPrefixes("ip daddr", routes) + "counter " + table.Balanced + table.Frontend +
			" vmap @" + table.Svc
		name := t.Own("sdn", e.ID, []string{rule})
		t.Put(table.SDN, addr.String(), "jump "+name)
	}
	for _, m := range e.PortMappings {
		at, value, ok := Mapping(t.Family, m, addr)
		if !ok {
			continue
		}
		if other, taken := t.At(at); taken && other != value {
			t.host.Rejected[e.ID] = fmt.Errorf("mapping port %d of endpoint %s: the port is taken", m.ExternalPort,
				e.ID)
			continue
		}
		t.Put(at.Set, at.Key, value)
		if m.LocalRouted {
			t.localRouted(e.ID, m, addr)
		}
	}

	t.acls(e, addr, true)
	t.acls(e, addr, false)
}

// Mapping returns the element of a port mapping of an endpoint's addr. ok is false if its VIP is of another family.
func Mapping(f table.Family, m desired.PortMapping, addr netip.Addr) (at table.Place, value string, ok bool) {
	at = table.Place{Set: table.HostPort, Key: fmt.Sprintf("%d . %d", m.Protocol, m.ExternalPort)}
	value = fmt.Sprintf("%s . %d", addr, m.InternalPort)
	if m.VIP.IsValid() && !m.VIP.IsUnspecified() {
		return table.Place{Set: table.HostPortVIP, Key: m.VIP.String() + " . " + at.Key}, value, f.Has(m.VIP)
	}
	return at, value, true
}

// localRouted leads programs of the host to a port mapping of an endpoint's addr, at the mapping's address or the
// node's: HNS gives the host a route for it, which makes its packets reach the switch.
func (t *Table) localRouted(endpoint string, m desired.PortMapping, addr netip.Addr) {
	at := m.VIP
	if !at.IsValid() || at.IsUnspecified() {
		at = t.host.node(t.Family)
	}
	if at.IsValid() {
		name := t.Own("hp", endpoint,
			[]string{fmt.Sprintf("meta l4proto %d dnat to %s", m.Protocol, netip.AddrPortFrom(addr, m.InternalPort))})
		t.Put(table.Svc, fmt.Sprintf("%s . %d . %d", at, m.Protocol, m.ExternalPort), "goto "+name)
	}
}

func (t *Table) outboundNAT(e *desired.Endpoint, addr netip.Addr) {
	rules, loops := NAT(t.Family, e, addr, t.host)
	if loops {
		t.Put(table.Loop, fmt.Sprintf("%s . %s", addr, addr), "")
	}
	if len(rules) == 0 {
		return
	}

	var lines []string
	for _, n := range rules {
		line := ""
		if len(n.To) > 0 {
			line = t.Family.MatchPrefixes("ip daddr", n.To)
		}
		if n.Source.IsValid() {
			line += "counter snat to " + n.Source.String()
		} else {
			line += "counter return"
		}
		lines = append(lines, line)
	}
	t.Put(table.Nat, addr.String(), "goto "+t.Own("nat", e.ID, lines))
}

// NATRule is one rule of an endpoint's outbound NAT.
type NATRule struct {
	To     []netip.Prefix // destinations; none: all
	Source netip.Addr     // what the packets get as their source; zero: they stay as they are
}

// NAT returns the rules of an endpoint's OutBoundNAT policies for its address addr; the first rule that matches counts.
// The exceptions of all policies hold for each of them. loops says that a policy names the endpoint itself as its
// destination (loopback DSR): then the endpoint reaches itself through a load balancer.
func NAT(f table.Family, e *desired.Endpoint, addr netip.Addr, h *Host) (rules []NATRule, loops bool) {
	var exceptions []netip.Prefix
	var general netip.Addr
	for _, o := range e.OutboundNAT {
		exceptions = append(exceptions, o.Exceptions...)
		source := h.node(f)
		if f.Usable(o.VirtualIP) {
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
			rules = append(rules, NATRule{To: others, Source: source})
		}
	}

	if len(rules) == 0 && !general.IsValid() {
		return nil, loops
	}
	if len(exceptions) > 0 {
		rules = append(rules, NATRule{To: exceptions})
	}
	if general.IsValid() {
		rules = append(rules, NATRule{Source: general})
	}
	return rules, loops
}

// acls renders one direction: lower priority number first, and what no rule names is allowed.
func (t *Table) acls(e *desired.Endpoint, addr netip.Addr, in bool) {
	acls := ACLs(e.ACLs, in)
	if len(acls) == 0 {
		return
	}
	var rules []string
	for _, a := range acls {
		rules = append(rules, aclRule(t.Family, a))
	}
	set := table.ACLOut
	if in {
		set = table.ACLIn
	}
	t.Put(set, addr.String(), "jump "+t.Own(set, e.ID, rules))
}

// aclRule returns the nft rule of one ACL. "Local" is the pod's side, which is the source on the way out and the
// destination on the way in. Ports need a protocol that has some.
func aclRule(f table.Family, a desired.ACL) string {
	local, remote, localPort, remotePort := "ip saddr", "ip daddr", "th sport", "th dport"
	if a.In {
		local, remote, localPort, remotePort = remote, local, remotePort, localPort
	}
	rule := ""
	if len(a.Local) > 0 {
		rule += f.MatchPrefixes(local, a.Local)
	}
	if len(a.Remote) > 0 {
		rule += f.MatchPrefixes(remote, a.Remote)
	}
	if len(a.Protocols) > 0 {
		rule += fmt.Sprintf("meta l4proto { %s } ", table.List(a.Protocols))
	} else if len(a.LocalPorts)+len(a.RemotePorts) > 0 {
		rule += table.Balanced
	}
	rule += table.MatchPorts(localPort, a.LocalPorts) + table.MatchPorts(remotePort, a.RemotePorts)
	if a.Allow {
		return rule + "counter return"
	}
	return rule + "counter drop"
}

// ACLs returns the ACLs of one direction in the order in which they count.
func ACLs(all []desired.ACL, in bool) (acls []desired.ACL) {
	for _, a := range all {
		if a.In == in {
			acls = append(acls, a)
		}
	}
	sort.SliceStable(acls, func(i, j int) bool { return acls[i].Priority < acls[j].Priority })
	return acls
}

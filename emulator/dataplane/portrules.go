package dataplane

import (
	"fmt"
	"net/netip"
	"sort"
	"strings"

	"porthole.dev/porthole/emulator/desired"
)

// PortRules is what the data plane does with the packets of one endpoint.
type PortRules struct {
	Endpoint  string         `json:"endpoint"`
	Network   string         `json:"network"`
	Type      string         `json:"networkType"`
	Addresses []netip.Prefix `json:"addresses"`
	MAC       string         `json:"mac,omitempty"`
	// Port is the name of the endpoint's port on this host and Netns the network namespace of its other end; "": it
	// has no port.
	Port  string     `json:"port,omitempty"`
	Netns string     `json:"netns,omitempty"`
	Stats *PortStats `json:"stats,omitempty"`
	Rules []PortRule `json:"rules"`
	// Notes say what has no effect here, and why.
	Notes []string `json:"notes,omitempty"`
}

// PortStats counts all packets of a port, as the endpoint sees them.
type PortStats struct {
	PacketsSent     uint64 `json:"packetsSent"`
	BytesSent       uint64 `json:"bytesSent"`
	PacketsReceived uint64 `json:"packetsReceived"`
	BytesReceived   uint64 `json:"bytesReceived"`
	Dropped         uint64 `json:"dropped"`
}

// PortRule is one rule, in the order in which packets meet them. Its counts are of packets that begin a connection:
// all others follow the first without a look at the rules.
type PortRule struct {
	Layer  string `json:"layer"` // acl, load balancer, route, port mapping or outbound nat
	Way    string `json:"way"`   // out: from the endpoint; in: to it
	Match  string `json:"match"`
	Action string `json:"action"`
	// Object is the id of the load balancer that the rule is of.
	Object  string `json:"object,omitempty"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	// Shared rules count packets of all endpoints of the host, and of the host itself.
	Shared bool `json:"shared,omitempty"`
	// Missing rules are not in the kernel although HNS has them.
	Missing bool `json:"missing,omitempty"`
}

// Count is how often a rule or an element was met.
type Count struct{ Packets, Bytes uint64 }

// counts are those of one table, read from the kernel. The key of a rule is its chain and position, that of an element
// its place.
type counts struct {
	rules map[string][]Count
	elems map[place]Count
}

// portRules describes the rules of an endpoint. all is what is desired, have what the kernel counted in each family's
// table.
func portRules(all desired.State, id string, facts Facts, have map[string]counts) (PortRules, bool) {
	r := render(all, facts)
	e, ok := r.endpoints[id]
	if !ok {
		return PortRules{}, false
	}
	out := PortRules{Endpoint: id, Network: e.Network, Addresses: e.Addrs, MAC: e.MAC, Rules: []PortRule{}}
	n := r.networks[e.Network]
	if n == nil {
		out.Notes = append(out.Notes, "networks of its type carry no packets here")
		return out, true
	}
	out.Type = n.Type
	if p, ok := r.state.Ports[portName(id)]; ok {
		out.Port, out.Netns = p.Name, p.Netns
	}
	switch {
	case n.Type == transparentType:
		out.Notes = append(out.Notes,
			"packets of a Transparent network pass no rules: none of its policies has an effect")
		return out, true
	case e.Remote:
		out.Notes = append(out.Notes,
			"it is on another host: it has no port here, and counts as a backend of load balancers only")
	case out.Port == "":
		out.Notes = append(out.Notes, "it has no port: it is not attached to a namespace of a pod")
	}

	for _, x := range r.families() {
		if a := x.fam.addressOf(e); a.IsValid() {
			l := lister{renderer: x, e: withNAT(e, n), addr: a, have: have[x.fam.table]}
			l.list(&out)
		}
	}
	return out, true
}

// lister lists the rules of one address of an endpoint.
type lister struct {
	*renderer
	e    *desired.Endpoint
	addr netip.Addr
	have counts
}

func (l lister) list(out *PortRules) {
	attached := out.Port != ""
	if attached {
		l.chain(out, "acl", "out", setACLOut, l.aclTexts(false))
	}
	l.balancers(out, attached)
	if attached {
		l.chain(out, "route", "out", setSDN, l.routeTexts())
		l.chain(out, "outbound nat", "out", setNat, l.natTexts())
		l.mappings(out)
		l.chain(out, "acl", "in", setACLIn, l.aclTexts(true))
	}
}

// ruleText is the match and the action of a rule, in words of HNS.
type ruleText struct{ match, action string }

// chain lists the rules of the endpoint's own chain behind a map. texts describe them in the chain's order.
func (l lister) chain(out *PortRules, layer, way, set string, texts []ruleText) {
	if len(texts) == 0 {
		return
	}
	verdict := l.state.Rules.Sets[set].Elems[l.addr.String()]
	_, name, _ := strings.Cut(verdict, " ")
	_, there := l.have.elems[place{set, l.addr.String()}]
	counted := l.have.rules[name]
	for i, t := range texts {
		rule := PortRule{Layer: layer, Way: way, Match: t.match, Action: t.action, Missing: !there || i >= len(counted)}
		if !rule.Missing {
			rule.Packets, rule.Bytes = counted[i].Packets, counted[i].Bytes
		}
		out.Rules = append(out.Rules, rule)
	}
}

func (l lister) aclTexts(in bool) (texts []ruleText) {
	for _, a := range sortedACLs(l.e.ACLs, in) {
		action := "block"
		if a.Allow {
			action = "allow"
		}
		texts = append(texts, ruleText{aclText(a), action})
	}
	return texts
}

// sortedACLs returns the ACLs of one direction in the order in which they count.
func sortedACLs(all []desired.ACL, in bool) (acls []desired.ACL) {
	for _, a := range all {
		if a.In == in {
			acls = append(acls, a)
		}
	}
	sort.SliceStable(acls, func(i, j int) bool { return acls[i].Priority < acls[j].Priority })
	return acls
}

func aclText(a desired.ACL) string {
	parts := []string{fmt.Sprintf("priority %d", a.Priority)}
	if len(a.Protocols) > 0 {
		parts = append(parts, "protocol "+list(a.Protocols))
	}
	for _, side := range []struct {
		name  string
		addrs []netip.Prefix
		ports []desired.PortRange
	}{{"local", a.Local, a.LocalPorts}, {"remote", a.Remote, a.RemotePorts}} {
		if len(side.addrs) > 0 {
			parts = append(parts, side.name+" "+list(side.addrs))
		}
		if len(side.ports) > 0 {
			parts = append(parts,
				strings.TrimSpace(strings.NewReplacer("{ ", "", " }", "").
					Replace(matchPorts(side.name+" port", side.ports))))
		}
	}
	return strings.Join(parts, " ")
}

func (l lister) routeTexts() []ruleText {
	var prefixes []netip.Prefix
	for _, s := range l.e.SDNRoutes {
		prefixes = append(prefixes, s.Destination)
	}
	if len(prefixes) == 0 {
		return nil
	}
	return []ruleText{{"to " + list(prefixes), "through the host's stack"}}
}

func (l lister) natTexts() (texts []ruleText) {
	rules, _ := l.fam.natRules(l.e, l.addr, l.facts)
	for _, n := range rules {
		text := ruleText{"to all else outside", "unchanged"}
		if len(n.to) > 0 {
			text.match = "to " + list(n.to)
		}
		if n.source.IsValid() {
			text.action = "source " + n.source.String()
		}
		texts = append(texts, text)
	}
	return texts
}

// mappings lists the port mappings. One whose port another endpoint has is missing.
func (l lister) mappings(out *PortRules) {
	for _, m := range l.e.PortMappings {
		at, value, ok := l.fam.mapping(m, l.addr)
		if !ok {
			continue
		}
		host := "the host"
		if at.set == setHostPortVIP {
			host = m.VIP.String()
		}
		rule := PortRule{Layer: "port mapping", Way: "in",
			Match:  fmt.Sprintf("%s port %d of %s", protocolText(m.Protocol), m.ExternalPort, host),
			Action: fmt.Sprintf("to port %d", m.InternalPort)}
		if l.state.Rules.Sets[at.set].Elems[at.key] != value {
			rule.Missing = true
			out.Rules = append(out.Rules, rule)
			continue
		}
		l.element(out, rule, at)
	}
}

// balancers lists the load balancers that the endpoint's connections may meet, and those whose backend it is.
func (l lister) balancers(out *PortRules, attached bool) {
	for _, id := range sortedKeys(l.renderer.balancers) {
		lb := l.renderer.balancers[id]
		for _, at := range l.owned[id] {
			set := l.state.Rules.Sets[at.set]
			value := set.Elems[at.key]
			switch at.set {
			case setDSR, setSvc, setExt:
				if attached && l.meets(at) {
					l.element(out, PortRule{Layer: "load balancer", Way: "out", Match: frontendText(at), Object: id,
						Shared: true,
						Action: fmt.Sprintf("to one of %d backends%s", len(lb.Backends), dsrText(lb.DSR))}, at)
				}
			case setEP, setNPEP:
				if addr, port, ok := strings.Cut(value, " . "); ok && addr == l.addr.String() {
					l.element(out, PortRule{Layer: "load balancer", Way: "in", Match: frontendText(at), Object: id,
						Shared: false,
						Action: "to port " + port + " of this backend"}, at)
				}
			}
		}
	}
}

// meets reports whether connections of the endpoint meet a frontend: one with direct server return or an external one
// in any case, others by an SDN route.
func (l lister) meets(at place) bool {
	if at.set != setSvc {
		return true
	}
	vip, _, _ := strings.Cut(at.key, " . ")
	addr, err := netip.ParseAddr(vip)
	if err != nil {
		return false
	}
	for _, s := range l.e.SDNRoutes {
		if s.Destination.Contains(addr) {
			return true
		}
	}
	return false
}

// element adds a rule with the counts of an element.
func (l lister) element(out *PortRules, rule PortRule, at place) {
	c, there := l.have.elems[at]
	rule.Packets, rule.Bytes, rule.Missing = c.Packets, c.Bytes, !there
	out.Rules = append(out.Rules, rule)
}

// frontendText words the key of an element: "VIP . protocol . port", without the first in a map of node ports, with a
// number behind it in a map of backends.
func frontendText(at place) string {
	parts := strings.Split(at.key, " . ")
	if at.set == setNPEP || at.set == setNP {
		return fmt.Sprintf("%s port %s of the host", protocolWord(parts[0]), parts[1])
	}
	return fmt.Sprintf("%s %s:%s", protocolWord(parts[1]), parts[0], parts[2])
}

func protocolWord(number string) string {
	return map[string]string{"6": "tcp", "17": "udp"}[number]
}

func protocolText(number uint8) string {
	if word := protocolWord(fmt.Sprint(number)); word != "" {
		return word
	}
	return fmt.Sprintf("protocol %d", number)
}

func dsrText(dsr bool) string {
	if dsr {
		return ", direct server return"
	}
	return ""
}

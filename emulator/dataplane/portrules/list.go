// Package portrules lists what the data plane does with the packets of one endpoint, in words of HNS and with the
// kernel's counts. It is pure.
package portrules

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/render"
	"porthole.dev/porthole/emulator/dataplane/rules"
	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

// List is what the data plane does with the packets of one endpoint.
type List struct {
	Endpoint  string         `json:"endpoint"`
	Network   string         `json:"network"`
	Type      string         `json:"networkType"`
	Addresses []netip.Prefix `json:"addresses"`
	MAC       string         `json:"mac,omitempty"`
	// Port is the name of the endpoint's port on this host and Netns the network namespace of its other end; "": it
	// has no port.
	Port  string `json:"port,omitempty"`
	Netns string `json:"netns,omitempty"`
	Stats *Stats `json:"stats,omitempty"`
	Rules []Rule `json:"rules"`
	// Notes say what has no effect here, and why.
	Notes []string `json:"notes,omitempty"`
}

// Stats counts all packets of a port, as the endpoint sees them.
type Stats struct {
	PacketsSent     uint64 `json:"packetsSent"`
	BytesSent       uint64 `json:"bytesSent"`
	PacketsReceived uint64 `json:"packetsReceived"`
	BytesReceived   uint64 `json:"bytesReceived"`
	Dropped         uint64 `json:"dropped"`
}

// Rule is one rule, in the order in which packets meet them. Its counts are of packets that begin a connection:
// all others follow the first without a look at the rules.
type Rule struct {
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

// Of lists the rules of an endpoint. all is what is desired, have what the kernel counted in each family's table. ok is
// false if nothing of that id is desired.
func Of(all desired.State, id string, facts kernel.Facts, have map[string]table.Counts) (list List, ok bool) {
	r := render.All(all, facts)
	e, ok := r.Host().Endpoints[id]
	if !ok {
		return List{}, false
	}
	out := List{Endpoint: id, Network: e.Network, Addresses: e.Addrs, MAC: e.MAC, Rules: []Rule{}}
	n := r.Host().Networks[e.Network]
	if n == nil {
		out.Notes = append(out.Notes, "networks of its type carry no packets here")
		return out, true
	}
	out.Type = n.Type
	if p, ok := r.State.Ports[kernel.PortName(id)]; ok {
		out.Port, out.Netns = p.Name, p.Netns
	}
	switch {
	case n.Type == render.Transparent:
		out.Notes = append(out.Notes,
			"packets of a Transparent network pass no rules: none of its policies has an effect")
		return out, true
	case e.Remote:
		out.Notes = append(out.Notes,
			"it is on another host: it has no port here, and counts as a backend of load balancers only")
	case out.Port == "":
		out.Notes = append(out.Notes, "it has no port: it is not attached to a namespace of a pod")
	}

	for _, x := range r.Families() {
		if a := x.Family.First(e.Addrs); a.IsValid() {
			l := lister{Table: x, host: r.Host(), e: render.WithNAT(e, n), addr: a, have: have[x.Family.Table]}
			l.list(&out)
		}
	}
	return out, true
}

// lister lists the rules of one address of an endpoint.
type lister struct {
	*rules.Table
	host *rules.Host
	e    *desired.Endpoint
	addr netip.Addr
	have table.Counts
}

func (l lister) list(out *List) {
	attached := out.Port != ""
	if attached {
		l.chain(out, "acl", "out", table.ACLOut, l.aclTexts(false))
	}
	l.balancers(out, attached)
	if attached {
		l.chain(out, "route", "out", table.SDN, l.routeTexts())
		l.chain(out, "outbound nat", "out", table.Nat, l.natTexts())
		l.mappings(out)
		l.chain(out, "acl", "in", table.ACLIn, l.aclTexts(true))
	}
}

// ruleText is the match and the action of a rule, in words of HNS.
type ruleText struct{ match, action string }

// chain lists the rules of the endpoint's own chain behind a map. texts describe them in the chain's order.
func (l lister) chain(out *List, layer, way, set string, texts []ruleText) {
	if len(texts) == 0 {
		return
	}
	at := table.Place{Set: set, Key: l.addr.String()}
	verdict, _ := l.At(at)
	_, name, _ := strings.Cut(verdict, " ")
	_, there := l.have.Elems[at]
	counted := l.have.Rules[name]
	for i, t := range texts {
		rule := Rule{Layer: layer, Way: way, Match: t.match, Action: t.action, Missing: !there || i >= len(counted)}
		if !rule.Missing {
			rule.Packets, rule.Bytes = counted[i].Packets, counted[i].Bytes
		}
		out.Rules = append(out.Rules, rule)
	}
}

func (l lister) aclTexts(in bool) (texts []ruleText) {
	for _, a := range rules.ACLs(l.e.ACLs, in) {
		action := "block"
		if a.Allow {
			action = "allow"
		}
		texts = append(texts, ruleText{aclText(a), action})
	}
	return texts
}

func aclText(a desired.ACL) string {
	parts := []string{fmt.Sprintf("priority %d", a.Priority)}
	if len(a.Protocols) > 0 {
		parts = append(parts, "protocol "+table.List(a.Protocols))
	}
	for _, side := range []struct {
		name  string
		addrs []netip.Prefix
		ports []desired.PortRange
	}{{"local", a.Local, a.LocalPorts}, {"remote", a.Remote, a.RemotePorts}} {
		if len(side.addrs) > 0 {
			parts = append(parts, side.name+" "+table.List(side.addrs))
		}
		if len(side.ports) > 0 {
			parts = append(parts,
				strings.TrimSpace(strings.NewReplacer("{ ", "", " }", "").
					Replace(table.MatchPorts(side.name+" port", side.ports))))
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
	return []ruleText{{"to " + table.List(prefixes), "through the host's stack"}}
}

func (l lister) natTexts() (texts []ruleText) {
	nat, _ := rules.NAT(l.Family, l.e, l.addr, l.host)
	for _, n := range nat {
		text := ruleText{"to all else outside", "unchanged"}
		if len(n.To) > 0 {
			text.match = "to " + table.List(n.To)
		}
		if n.Source.IsValid() {
			text.action = "source " + n.Source.String()
		}
		texts = append(texts, text)
	}
	return texts
}

// mappings lists the port mappings. One whose port another endpoint has is missing.
func (l lister) mappings(out *List) {
	for _, m := range l.e.PortMappings {
		at, value, ok := rules.Mapping(l.Family, m, l.addr)
		if !ok {
			continue
		}
		host := "the host"
		if at.Set == table.HostPortVIP {
			host = m.VIP.String()
		}
		rule := Rule{Layer: "port mapping", Way: "in",
			Match:  fmt.Sprintf("%s port %d of %s", protocolText(m.Protocol), m.ExternalPort, host),
			Action: fmt.Sprintf("to port %d", m.InternalPort)}
		if is, _ := l.At(at); is != value {
			rule.Missing = true
			out.Rules = append(out.Rules, rule)
			continue
		}
		l.element(out, rule, at)
	}
}

// balancers lists the load balancers that the endpoint's connections may meet, and those whose backend it is.
func (l lister) balancers(out *List, attached bool) {
	for _, id := range slices.Sorted(maps.Keys(l.Balancers.All())) {
		lb := l.Balancers.All()[id]
		for _, at := range l.Of(id) {
			value, _ := l.At(at)
			switch at.Set {
			case table.DSR, table.Svc, table.Ext:
				if attached && l.meets(at) {
					l.element(out, Rule{Layer: "load balancer", Way: "out", Match: frontendText(at), Object: id,
						Shared: true,
						Action: fmt.Sprintf("to one of %d backends%s", len(lb.Backends), dsrText(lb.DSR))}, at)
				}
			case table.EP, table.NPEP:
				if addr, port, ok := strings.Cut(value, " . "); ok && addr == l.addr.String() {
					l.element(out, Rule{Layer: "load balancer", Way: "in", Match: frontendText(at), Object: id,
						Shared: false,
						Action: "to port " + port + " of this backend"}, at)
				}
			}
		}
	}
}

// meets reports whether connections of the endpoint meet a frontend: one with direct server return or an external one
// in any case, others by an SDN route.
func (l lister) meets(at table.Place) bool {
	if at.Set != table.Svc {
		return true
	}
	vip, _, _ := strings.Cut(at.Key, " . ")
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
func (l lister) element(out *List, rule Rule, at table.Place) {
	c, there := l.have.Elems[at]
	rule.Packets, rule.Bytes, rule.Missing = c.Packets, c.Bytes, !there
	out.Rules = append(out.Rules, rule)
}

// frontendText words the key of an element: "VIP . protocol . port", without the first in a map of node ports, with a
// number behind it in a map of backends.
func frontendText(at table.Place) string {
	parts := strings.Split(at.Key, " . ")
	if at.Set == table.NPEP || at.Set == table.NP {
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

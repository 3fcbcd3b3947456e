package firewall

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// prefix begins the names of our rules. Rules of other names are never changed.
const prefix = "Porthole: "

// programs are the node's programs that others connect to: kubelet.exe at port 10250; kube-proxy.exe at 10256, at
// health check node ports and at the ports of its relays; and porthole.exe, which can be each of them, and speaks BGP.
// Rules by program cover ports that are chosen later.
var programs = []string{"kubelet.exe", "kube-proxy.exe", "porthole.exe"}

// rule is an inbound rule of Windows' firewall, with the properties that matter here.
type rule struct {
	Name    string `json:"name"`
	Program string `json:"program"` // full path
	// UDP and TCP are the port of a rule for one port, "" of others.
	UDP string `json:"udp,omitempty"`
	TCP string `json:"tcp,omitempty"`
	// Limited: the rule does not allow the program everything: it blocks, is disabled, or has ports, addresses or
	// profiles.
	Limited bool `json:"limited,omitempty"`
}

// object words what a rule lets connections to: a program, or a port.
func (r rule) object() string {
	switch {
	case r.UDP != "":
		return "UDP " + r.UDP
	case r.TCP != "":
		return "TCP " + r.TCP
	}
	return r.Program
}

// parseRule parses a rule in the registry's format ([MS-GPFAS] 2.2.2): fields between bars. ok is false for an
// outbound rule.
func parseRule(text string) (r rule, ok bool) {
	allow, active, in := false, false, false
	protocol, port := "", ""

	for _, field := range strings.Split(text, "|") {
		name, value, _ := strings.Cut(field, "=")
		switch strings.ToLower(name) {
		case "name":
			r.Name = value
		case "app":
			r.Program = value
		case "action":
			allow = strings.EqualFold(value, "Allow")
		case "active":
			active = strings.EqualFold(value, "TRUE")
		case "dir":
			in = strings.EqualFold(value, "In")
		case "protocol":
			protocol = value
		case "lport":
			port = value
		case "lport2_10", "rport", "rport2_10", "la4", "la6", "ra4", "ra6", "ra42", "ra62", "if", "iftype", "profile",
			"svc":
			r.Limited = true
		}
	}

	switch protocol {
	case protocolUDP:
		r.UDP = port
	case protocolTCP:
		r.TCP = port
	}
	r.Limited = r.Limited || !allow || !active || r.UDP+r.TCP == "" && protocol+port != ""
	return r, in
}

// protocolUDP and protocolTCP are how rules write them (IANA). vxlanPort is the UDP port of packets between the nodes
// of an overlay (RFC 7348).
const (
	protocolUDP = "17"
	protocolTCP = "6"
	vxlanPort   = "4789"
)

// vxlanRule is the name of our rule for the packets between the nodes of an overlay.
const vxlanRule = prefix + "VXLAN"

// ours returns the rules whose names begin with prefix, by name.
func ours(all []rule) map[string][]rule {
	out := map[string][]rule{}
	for _, r := range all {
		if strings.HasPrefix(strings.ToLower(r.Name), strings.ToLower(prefix)) {
			out[r.Name] = append(out[r.Name], r)
		}
	}
	return out
}

// operation is one change. It prints itself as the command of netsh that would do the same.
type operation struct {
	Verb    string `json:"verb"` // add or delete
	Name    string `json:"name"`
	Program string `json:"program,omitempty"`
	UDP     string `json:"udp,omitempty"` // of a rule for a port
	Why     string `json:"why,omitempty"` // of delete: how the present rule is wrong
}

// args returns the arguments for netsh.exe.
func (o operation) args() []string {
	args := []string{"advfirewall", "firewall", o.Verb, "rule", "name=" + o.Name}
	if o.Verb == "add" {
		args = append(args, "dir=in", "action=allow")
		if o.UDP != "" {
			args = append(args, "protocol=UDP", "localport="+o.UDP)
		} else {
			args = append(args, "program="+o.Program)
		}
		args = append(args, "enable=yes")
	}
	return args
}

func (o operation) String() string {
	var words []string
	for _, a := range o.args() {
		if name, value, ok := strings.Cut(a, "="); ok && strings.Contains(value, " ") {
			a = name + `="` + value + `"`
		}
		words = append(words, a)
	}
	text := "netsh " + strings.Join(words, " ")
	if o.Why != "" {
		text += "   (" + o.Why + ")"
	}
	return text
}

// planAdd returns the operations after which each wanted program has one rule of ours that allows it everything.
func planAdd(wanted []string, have []rule) (ops []operation) {
	names := ours(have)
	for _, program := range wanted {
		name := ruleName(program)
		present := names[name]
		right := func(r rule) bool { return strings.EqualFold(r.Program, program) && !r.Limited && r.UDP+r.TCP == "" }
		if len(present) == 1 && right(present[0]) {
			continue
		}

		why := ""
		if len(present) > 0 {
			why = differs(present, program)
			ops = append(ops, operation{Verb: "delete", Name: name, Why: why})
		}
		ops = append(ops, operation{Verb: "add", Name: name, Program: program})
	}
	return ops
}

// planVXLAN returns the operations after which there is one rule of ours that allows the packets between the nodes of
// an overlay.
func planVXLAN(have []rule) (ops []operation) {
	present := ours(have)[vxlanRule]
	if len(present) == 1 && present[0].UDP == vxlanPort && present[0].Program == "" && !present[0].Limited {
		return nil
	}
	if len(present) > 0 {
		ops = append(ops, operation{Verb: "delete", Name: vxlanRule, Why: "it does not allow exactly UDP " + vxlanPort})
	}
	return append(ops, operation{Verb: "add", Name: vxlanRule, UDP: vxlanPort})
}

// differs returns how the present rules of one name differ from the one that a program needs.
func differs(present []rule, program string) string {
	switch r := present[0]; {
	case len(present) > 1:
		return fmt.Sprintf("there are %d of this name", len(present))
	case !strings.EqualFold(r.Program, program):
		return "it is for " + r.Program
	}
	return "it does not allow everything"
}

// planRemove returns the operations that delete all rules of ours.
func planRemove(have []rule) (ops []operation) {
	for name := range ours(have) {
		ops = append(ops, operation{Verb: "delete", Name: name})
	}
	slices.SortFunc(ops, func(a, b operation) int { return strings.Compare(a.Name, b.Name) })
	return ops
}

// ruleName returns the name of our rule for a program.
func ruleName(program string) string {
	return prefix + path.Base(strings.ReplaceAll(program, `\`, "/"))
}

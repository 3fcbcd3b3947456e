// Package plantest plays scripts about the plans of modes: text files that give the nodes of a cluster and the routes of a
// host, and say which plan is wanted. A script has these sections:
//
//	-- host --          what this host is: "self NAME", and "on-link PREFIX" for each segment it shares
//	-- nodes --         one node a line: NAME ADDRESS RANGE…; "-" for an address that is not known
//	-- routes --        one route of the host a line: "ours" or "foreign", RANGE, "via", ADDRESS
//	-- carry out --     empty: the changes of the plan are made to the routes
//	-- want plan --     the plan's text
//
// A section replaces what an earlier one of its name gave.
package plantest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/script"
	"porthole.dev/porthole/routes/table"
)

// Given is what a script has given so far.
type Given struct {
	Self   string
	OnLink []netip.Prefix
	Nodes  []table.Node
	Routes []table.Route
}

// Run plays the scripts that pattern matches with the plan of a mode. Each plan must be the same with the nodes and routes in
// reverse order.
func Run(t *testing.T, pattern string, plan func(Given) table.Plan[table.Change]) {
	t.Helper()
	script.Run(t, pattern, func(*testing.T) script.Player { return &player{plan: plan} })
}

type player struct {
	Given
	plan func(Given) table.Plan[table.Change]
}

func (p *player) Give(section, text string) error {
	var take func(line string) error
	switch section {
	case "host":
		p.Self, p.OnLink = "", nil
		take = p.host
	case "nodes":
		p.Nodes, take = nil, p.node
	case "routes":
		p.Routes, take = nil, p.route
	case "carry out":
		p.carryOut()
	default:
		return fmt.Errorf("no section is called %q", section)
	}

	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || take == nil {
			continue
		}
		if err := take(line); err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
	}
	return nil
}

func (p *player) host(line string) error {
	word, value, _ := strings.Cut(line, " ")
	switch word {
	case "self":
		p.Self = value
	case "on-link":
		prefix, err := netip.ParsePrefix(value)
		p.OnLink = append(p.OnLink, prefix)
		return err
	default:
		return fmt.Errorf("want self or on-link")
	}
	return nil
}

func (p *player) node(line string) error {
	words := strings.Fields(line)
	if len(words) < 2 {
		return fmt.Errorf("want a name and an address")
	}
	n := table.Node{Name: words[0]}
	if words[1] != "-" {
		addr, err := netip.ParseAddr(words[1])
		if err != nil {
			return err
		}
		n.Addr = addr
	}

	for _, text := range words[2:] {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		n.PodCIDRs = append(n.PodCIDRs, prefix)
	}
	p.Nodes = append(p.Nodes, n)
	return nil
}

func (p *player) route(line string) error {
	var owner, dst, hop string
	if _, err := fmt.Sscanf(line, "%s %s via %s", &owner, &dst, &hop); err != nil {
		return err
	}
	if owner != "ours" && owner != "foreign" {
		return fmt.Errorf("want ours or foreign")
	}
	prefix, err := netip.ParsePrefix(dst)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(hop)
	if err != nil {
		return err
	}
	p.Routes = append(p.Routes, table.Route{Dst: prefix, NextHop: addr, Ours: owner == "ours"})
	return nil
}

// carryOut makes the changes of the plan. As on Windows, routes of one destination stand side by side.
func (p *player) carryOut() {
	for _, c := range p.plan(p.Given).Ops {
		p.Routes = slices.DeleteFunc(p.Routes, func(r table.Route) bool { return r.Ours && r.Dst == c.Dst && r.NextHop == c.NextHop })
		if c.Verb == table.Add {
			p.Routes = append(p.Routes, table.Route{Dst: c.Dst, NextHop: c.NextHop, Ours: true})
		}
	}
}

func (p *player) Show(section string) (string, error) {
	if section != "want plan" {
		return "", fmt.Errorf("no section is called %q", section)
	}
	text := p.plan(p.Given).String()

	reverse := p.Given
	reverse.Nodes, reverse.Routes = slices.Clone(p.Nodes), slices.Clone(p.Routes)
	slices.Reverse(reverse.Nodes)
	slices.Reverse(reverse.Routes)
	if other := p.plan(reverse).String(); other != text {
		return "", fmt.Errorf("with nodes and routes in reverse order the plan is\n%s", other)
	}
	return text, nil
}

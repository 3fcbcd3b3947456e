// Package plantest plays scripts about the plans of modes: text files that give the nodes of a cluster and the routes
// of a host, and say which plan is wanted. A script has these sections:
//
//	-- host --          what this host is: "self NAME", "on-link PREFIX" for each segment it shares, "pods PREFIX" for the range of all pods
//	-- nodes --         one node a line: NAME ADDRESS RANGE… [since=SECOND]; "-" for an address that is not known
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
	"strconv"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/script"
	"porthole.dev/porthole/routes/table"
)

// Given is what a script has given so far.
type Given struct {
	Self   string
	OnLink []netip.Prefix
	Pods   []netip.Prefix // of all pods; none: not known
	Nodes  []table.Node
	Routes []table.Route
}

// Claims are what the nodes are held against.
func (g Given) Claims() table.Claims {
	return table.Claims{Self: g.Self, Cluster: table.Cluster{Pods: g.Pods}}
}

// Run plays the scripts that pattern matches with the plan of a mode. Each plan must be the same with the nodes and
// routes in reverse order.
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
		p.Self, p.OnLink, p.Pods = "", nil, nil
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
	case "pods":
		prefix, err := netip.ParsePrefix(value)
		p.Pods = append(p.Pods, prefix)
		return err
	default:
		return fmt.Errorf("want self, on-link or pods")
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
		if second, is := strings.CutPrefix(text, "since="); is {
			at, err := strconv.Atoi(second)
			if err != nil {
				return err
			}
			n.Since = time.Unix(int64(at), 0)
			continue
		}
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
	p.Routes = ApplyRoutes(p.Routes, p.plan(p.Given).Ops)
}

func (p *player) Show(section string) (string, error) {
	if section != "want plan" {
		return "", fmt.Errorf("no section is called %q", section)
	}
	text := p.plan(p.Given).String()

	reverse := p.Given
	reverse.Nodes = slices.Clone(p.Nodes)
	reverse.Routes = slices.Clone(p.Routes)
	slices.Reverse(reverse.Nodes)
	slices.Reverse(reverse.Routes)
	if other := p.plan(reverse).String(); other != text {
		return "", fmt.Errorf("with nodes and routes in reverse order the plan is\n%s", other)
	}
	return text, nil
}

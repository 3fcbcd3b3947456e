package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/script"
	"porthole.dev/porthole/routes/plantest"
	"porthole.dev/porthole/routes/table"
)

// TestScripts plays testdata. A script has these sections, each of which replaces what an earlier one of its name gave:
//
//	-- config --      the configuration
//	-- nodes --       one node a line: NAME ADDRESS RANGE… [since=SECOND]; the first is this host
//	-- annotate --    NODE NAME VALUE: an annotation of porthole.dev/bgp-NAME
//	-- speaker --     "heard", "told", "no-listener TEXT", "no-password TEXT", "no-default TEXT",
//	                  "established ADDRESS", "late ADDRESS TEXT", "half-open ADDRESS SECONDS RENEWALS"
//	-- paths --       DESTINATION via NEXTHOP from PEER [origin ID] [aspath LENGTH]
//	-- routes --      one route of the host a line: "ours" or "foreign", RANGE, "via", ADDRESS or "nothing"
//	-- cordoned --    names of nodes
//	-- pods --        "none", "left NUMBER", "unknown REASON", or "none REASON", of before and not known now: the pods of this host
//	-- segments --    one segment of other interfaces than the node's a line
//	-- carry out --   the changes of the plan are made
//	-- want plan --   the plan's text
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txtar", func(*testing.T) script.Player { return &player{} })
}

type player struct {
	config Config
	nodes  []table.Node
	seen   Seen

	segments []netip.Prefix // of other interfaces than the node's
}

func (p *player) Give(section, text string) error {
	var take func(words []string) error
	switch section {
	case "config":
		var err error
		p.config, err = Parse([]byte(text))
		return err
	case "nodes":
		p.nodes, take = nil, p.node
	case "annotate":
		take = p.annotate
	case "cordoned":
		for i := range p.nodes {
			p.nodes[i].Cordoned = slices.Contains(strings.Fields(text), p.nodes[i].Name)
		}
	case "pods":
		p.seen.Pods, take = Pods{}, p.pods
	case "speaker":
		p.seen.Heard, p.seen.Told, p.seen.NoListener, p.seen.PortFree, p.seen.NoPassword, p.seen.NoDefault,
			take = false, false, "", false, "", "", p.speaker
		for i := range p.seen.Neighbours {
			p.seen.Neighbours[i].Established, p.seen.Neighbours[i].Late = false, false
		}
	case "paths":
		p.seen.Paths, take = nil, p.path
	case "routes":
		p.seen.Routes, take = nil, p.route
	case "segments":
		p.segments, take = nil, func(words []string) error {
			segment, err := netip.ParsePrefix(words[0])
			p.segments = append(p.segments, segment)
			return err
		}
	case "carry out":
		p.carryOut()
	default:
		return fmt.Errorf("no section is called %q", section)
	}

	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || take == nil {
			continue
		}
		if err := take(words); err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
	}
	return nil
}

func (p *player) node(words []string) error {
	n := table.Node{Name: words[0], Addr: netip.MustParseAddr(words[1])}
	for _, cidr := range words[2:] {
		if second, is := strings.CutPrefix(cidr, "since="); is {
			at, err := strconv.Atoi(second)
			if err != nil {
				return err
			}
			n.Since = time.Unix(int64(at), 0)
			continue
		}
		n.PodCIDRs = append(n.PodCIDRs, netip.MustParsePrefix(cidr))
	}
	p.nodes = append(p.nodes, n)
	return nil
}

func (p *player) annotate(words []string) error {
	for i := range p.nodes {
		if p.nodes[i].Name == words[0] {
			p.nodes[i].Annotations = map[string]string{"porthole.dev/bgp-" + words[1]: strings.Join(words[2:], " ")}
			return nil
		}
	}
	return fmt.Errorf("no such node")
}

func (p *player) pods(words []string) error {
	switch words[0] {
	case "none":
		p.seen.Pods.Known, p.seen.Pods.Why = true, strings.Join(words[1:], " ")
	case "left":
		p.seen.Pods.Known = true
		_, err := fmt.Sscan(words[1], &p.seen.Pods.Left)
		return err
	default:
		p.seen.Pods.Why = strings.Join(words[1:], " ")
	}
	return nil
}

func (p *player) speaker(words []string) error {
	rest := strings.Join(words[min(2, len(words)):], " ")

	switch words[0] {
	case "heard":
		p.seen.Heard = true
	case "told":
		p.seen.Told = true
	case "no-listener":
		p.seen.NoListener = strings.Join(words[1:], " ")
	case "port-free":
		p.seen.PortFree = true
	case "no-password":
		p.seen.NoPassword = strings.Join(words[1:], " ")
	case "no-default":
		p.seen.NoDefault = strings.Join(words[1:], " ")
	case "established", "late", "half-open":
		for i := range p.seen.Neighbours {
			if n := &p.seen.Neighbours[i]; n.Addr == netip.MustParseAddr(words[1]) {
				n.Established = words[0] == "established"
				n.Late = words[0] == "late"
				n.HalfOpen = 0
				n.Why = rest
				if words[0] == "half-open" {
					seconds, _ := strconv.Atoi(words[2])
					n.HalfOpen = time.Duration(seconds) * time.Second
					n.Renewals, _ = strconv.Atoi(words[3])
				}
				return nil
			}
		}
		return fmt.Errorf("no such peer")
	default:
		return fmt.Errorf("no such word")
	}
	return nil
}

func (p *player) path(words []string) error {
	path := Path{Dst: netip.MustParsePrefix(words[0]), NextHop: netip.MustParseAddr(words[2]),
		Peer: netip.MustParseAddr(words[4])}
	for i := 5; i+1 < len(words); i += 2 {
		switch words[i] {
		case "origin":
			path.Origin = netip.MustParseAddr(words[i+1])
		case "aspath":
			fmt.Sscan(words[i+1], &path.Rank.ASPathLen)
		}
	}
	p.seen.Paths = append(p.seen.Paths, path)
	return nil
}

func (p *player) route(words []string) error {
	r := table.Route{Dst: netip.MustParsePrefix(words[1]), Ours: words[0] == "ours"}
	if words[3] != "nothing" {
		r.NextHop = netip.MustParseAddr(words[3])
	}
	p.seen.Routes = append(p.seen.Routes, r)
	return nil
}

// carryOut makes the changes of the plan, as a host and a speaker without faults would.
func (p *player) carryOut() {
	for _, c := range p.plan().Ops {
		unroute := func() {
			p.seen.Routes = slices.DeleteFunc(p.seen.Routes,
				func(r table.Route) bool { return r.Ours && r.Dst == c.Dst })
		}
		unpeer := func() {
			p.seen.Neighbours = slices.DeleteFunc(p.seen.Neighbours,
				func(n Neighbour) bool { return n.Addr == c.Peer.Addr })
		}

		switch c.Verb {
		case Start:
			p.seen.Running, p.seen.Session, p.seen.Neighbours, p.seen.Announced = true, c.Session, nil, nil
		case Announce:
			p.seen.Announced = append(p.seen.Announced, c.Dst)
		case Withdraw:
			p.seen.Announced = slices.DeleteFunc(p.seen.Announced, func(a netip.Prefix) bool { return a == c.Dst })
		case SetPeer:
			unpeer()
			p.seen.Neighbours = append(p.seen.Neighbours, Neighbour{Peer: c.Peer})
		case DeletePeer:
			unpeer()
		case Route:
			unroute()
			for _, hop := range c.Hops {
				p.seen.Routes = append(p.seen.Routes, table.Route{Dst: c.Dst, NextHop: hop, Ours: true})
			}
		case Unroute:
			unroute()
		}
	}
}

func (p *player) plan() table.Plan[Change] {
	p.segment()
	return plan(p.options(), p.nodes, p.seen)
}

var cluster16, lin01 = netip.MustParsePrefix("10.244.0.0/16"), table.Node{Name: "lin01",
	Addr: netip.MustParseAddr("10.99.0.11")}

func (p *player) options() Options {
	return Options{Node: lin01.Name, Addr: lin01.Addr, Cluster: cluster16, Config: p.config}
}

func (p *player) segment() {
	p.seen.OnLink = []netip.Prefix{netip.MustParsePrefix("10.99.0.0/24")}
	p.seen.Segments = slices.Concat(p.seen.OnLink, p.segments)
}

func (p *player) Show(section string) (string, error) {
	if section != "want plan" {
		return "", fmt.Errorf("no section is called %q", section)
	}
	text := p.plan().String()

	slices.Reverse(p.nodes)
	slices.Reverse(p.seen.Routes)
	other := p.plan().String()
	slices.Reverse(p.nodes)
	slices.Reverse(p.seen.Routes)
	if other != text {
		return "", fmt.Errorf("with nodes and routes in reverse order the plan is\n%s", other)
	}
	return text, nil
}

// TestLyingNodes: no node can take what another has, by its Node object or by what it announces. Nodes have sessions
// with each other, and a router passes on what somebody announces to it.
func TestLyingNodes(t *testing.T) {
	plantest.Play(t, nil, func(l *plantest.Lies) func([]table.Node) []table.Route {
		i := slices.IndexFunc(l.Honest, func(n table.Node) bool { return n.Name == l.Self })
		o := Options{Node: l.Self, Addr: l.Honest[i].Addr, Cluster: l.Pods, Ranges: l.Cluster(),
			Config: Config{FullMesh: true, Peers: []PeerConfig{{PeerIP: router.String(), ASNumber: 65000}}}}
		seen := Seen{OnLink: l.OnLink, Segments: l.OnLink, Speaker: Speaker{Running: true, Heard: true, Told: true}}
		return func(nodes []table.Node) []table.Route {
			seen.Paths = lyingPaths(l, nodes)
			for _, c := range plan(o, nodes, seen).Ops {
				switch c.Verb {
				case Announce:
					seen.Announced = []netip.Prefix{c.Dst}
				case Route, Unroute:
					seen.Routes = slices.DeleteFunc(seen.Routes, func(r table.Route) bool { return r.Dst == c.Dst })
					for _, hop := range c.Hops {
						seen.Routes = append(seen.Routes, table.Route{Dst: c.Dst, NextHop: hop, Ours: true})
					}
				}
			}

			if own := l.Honest[i].PodCIDRs[0]; !slices.Equal(seen.Announced, []netip.Prefix{own}) {
				t.Errorf("node %s announces %v, want %s\nnodes %+v", l.Self, seen.Announced, own, nodes)
			}
			return seen.Routes
		}
	})
}

var router = netip.MustParseAddr("10.99.0.1")

// lyingPaths are what nodes announce: honest ones their range, and liars also ranges of others, parts of them, and the
// range of all pods.
func lyingPaths(l *plantest.Lies, nodes []table.Node) (paths []Path) {
	for _, n := range nodes {
		if n.Name == l.Self {
			continue
		}
		for _, dst := range n.PodCIDRs {
			paths = append(paths, Path{Dst: dst, NextHop: n.Addr, Peer: n.Addr})
		}
		if slices.ContainsFunc(l.Honest, func(h table.Node) bool { return h.Name == n.Name || h.Addr == n.Addr }) ||
			n.Addr == router {
			continue // nobody has a session with it
		}
		for _, h := range l.Honest {
			own := h.PodCIDRs[0]
			for _, dst := range []netip.Prefix{own, netip.PrefixFrom(own.Addr(), 25), l.Pods} {
				paths = append(paths, Path{Dst: dst, NextHop: n.Addr, Peer: n.Addr},
					Path{Dst: dst, NextHop: router, Peer: router, Origin: n.Addr})
			}
			paths = append(paths, Path{Dst: netip.PrefixFrom(own.Addr(), 26), NextHop: router, Peer: router})
		}
	}
	return paths
}

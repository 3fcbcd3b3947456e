package tor

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/routes/plantest"
	"porthole.dev/porthole/routes/table"
)

// TestScripts plays testdata with the plan of this mode.
func TestScripts(t *testing.T) {
	plantest.Run(t, "testdata/*.txtar",
		func(w plantest.Given) table.Plan[table.Change] { return plan(w.Claims(), w.Nodes, w.Routes) })
}

func node(name, addr string, ranges ...string) table.Node {
	n := table.Node{Name: name}
	if addr != "" {
		n.Addr = netip.MustParseAddr(addr)
	}
	for _, r := range ranges {
		n.PodCIDRs = append(n.PodCIDRs, netip.MustParsePrefix(r))
	}
	return n
}

func TestExport(t *testing.T) {
	wanted := Wanted([]table.Node{node("win01", "10.99.0.21", "10.244.1.0/24"),
		node("lin01", "10.99.0.11", "10.244.0.0/24"),
		node("new", "", "10.244.2.0/24"), node("a", "10.99.0.31", "10.244.3.0/24"),
		node("b", "10.99.0.32", "10.244.3.0/25"), node("in", "10.244.4.7", "10.244.4.0/24")}, table.Cluster{})

	for format, want := range map[string]string{
		"frr":  "ip route 10.244.0.0/24 10.99.0.11\nip route 10.244.1.0/24 10.99.0.21\nip route 10.244.3.0/24 10.99.0.31\n",
		"bird": "protocol static porthole4 {\n\tipv4;\n\troute 10.244.0.0/24 via 10.99.0.11; # lin01\n\troute 10.244.1.0/24 via 10.99.0.21; # win01\n\troute 10.244.3.0/24 via 10.99.0.31; # a\n}\nprotocol static porthole6 {\n\tipv6;\n}\n",
		"ip":   "ip route replace 10.244.0.0/24 via 10.99.0.11 proto static # lin01\nip route replace 10.244.1.0/24 via 10.99.0.21 proto static # win01\nip route replace 10.244.3.0/24 via 10.99.0.31 proto static # a\n",
		"json": `[
  {
    "node": "lin01",
    "destination": "10.244.0.0/24",
    "nextHop": "10.99.0.11"
  },
  {
    "node": "win01",
    "destination": "10.244.1.0/24",
    "nextHop": "10.99.0.21"
  },
  {
    "node": "a",
    "destination": "10.244.3.0/24",
    "nextHop": "10.99.0.31"
  }
]
`,
	} {
		got, err := Export(format, wanted)
		if err != nil || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %v\n%s\nwant at its end\n%s", format, err, got, want)
		}
		for _, reason := range []string{"of node new: ", "overlaps", "holds address"} {
			if format != "json" && !strings.Contains(got, reason) {
				t.Errorf("%s does not say %q:\n%s", format, reason, got)
			}
		}
	}

	if _, err := Export("ios", wanted); err == nil || !strings.Contains(err.Error(), "known: frr, bird, ip, json") {
		t.Errorf("an unknown form: %v", err)
	}
}

// TestPlanRouter: each range of a node has one next hop, stale static routes go, what others made and what is not
// known stays.
func TestPlanRouter(t *testing.T) {
	prefix := netip.MustParsePrefix
	static := func(dst string, hops ...string) Running {
		r := Running{Dst: prefix(dst), Static: true}
		for _, h := range hops {
			r.Hops = append(r.Hops, netip.MustParseAddr(h))
		}
		return r
	}
	learnt := static("10.244.4.0/24", "10.99.0.14")
	learnt.Static = false

	got := planRouter([]table.Node{node("right", "10.99.0.11", "10.244.1.0/24", "fd00::/64"),
		node("wrong", "10.99.0.12", "10.244.2.0/24"), node("twice", "10.99.0.13", "10.244.3.0/24"),
		node("learnt", "10.99.0.14", "10.244.4.0/24"), node("new", "", "10.244.5.0/24"),
		node("a", "10.99.0.16", "10.244.6.0/24"), node("b", "10.99.0.17", "10.244.6.0/25")},
		[]Running{static("10.244.1.0/24", "10.99.0.11"), static("10.244.2.0/24", "10.99.0.9"),
			static("10.244.3.0/24", "10.99.0.13"), static("10.244.3.0/24", "10.99.0.9"),
			learnt, static("10.244.5.0/24", "10.99.0.15"), static("10.244.6.0/24", "10.99.0.16"),
			static("10.244.6.0/25", "10.99.0.17"), static("10.244.7.0/24", "10.99.0.11"),
			static("10.244.0.0/16", "10.99.0.1"),
			static("172.16.0.0/24", "10.99.0.1"), static("0.0.0.0/0", "10.0.0.1")},
		table.Cluster{Pods: []netip.Prefix{prefix("10.244.0.0/16"), prefix("fd00::/48")}})

	var ops []string
	for _, op := range got.Ops {
		ops = append(ops, op.String())
	}
	want := []string{
		"route 10.244.2.0/24 via 10.99.0.12, no route 10.244.2.0/24 via 10.99.0.9: another next hop takes packets of node wrong",
		"route 10.244.3.0/24 via 10.99.0.13, no route 10.244.3.0/24 via 10.99.0.9: another next hop takes packets of node twice",
		"route 10.244.4.0/24 via 10.99.0.14: node learnt has no route",
		"no route 10.244.6.0/25 via 10.99.0.17: no node has this range, or none may have it",
		"no route 10.244.7.0/24 via 10.99.0.11: no node has this range, or none may have it",
	}
	if strings.Join(ops, "\n") != strings.Join(want, "\n") {
		t.Errorf("changes\n%s\nwant\n%s", strings.Join(ops, "\n"), strings.Join(want, "\n"))
	}
}

// TestLyingNodes: no node can take on the router what another has, and a printed configuration has the routes of all
// honest nodes.
func TestLyingNodes(t *testing.T) {
	plantest.Play(t, nil, func(l *plantest.Lies) func([]table.Node) []table.Route {
		l.Self = "" // the router is no node
		var routes []table.Route
		cluster := l.Cluster()
		return func(nodes []table.Node) []table.Route {
			var running []Running
			for _, r := range routes {
				running = append(running, Running{Dst: r.Dst, Hops: []netip.Addr{r.NextHop}, Static: true})
			}
			for _, op := range planRouter(nodes, running, cluster).Ops {
				routes = slices.DeleteFunc(routes,
					func(r table.Route) bool { return r.Dst == op.Dst && slices.Contains(op.Without, r.NextHop) })
				if op.NextHop.IsValid() {
					routes = append(routes, table.Route{Dst: op.Dst, NextHop: op.NextHop, Ours: true})
				}
			}
			return routes
		}
	})
}

package tor

import (
	"net/netip"
	"strings"
	"testing"

	"porthole.dev/porthole/routes/plantest"
	"porthole.dev/porthole/routes/table"
)

// TestScripts plays testdata with the plan of this mode.
func TestScripts(t *testing.T) {
	plantest.Run(t, "testdata/*.txtar", func(w plantest.Given) table.Plan[table.Change] { return plan(w.Self, w.Nodes, w.Routes) })
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
	wanted := Wanted([]table.Node{node("win01", "10.99.0.21", "10.244.1.0/24"), node("lin01", "10.99.0.11", "10.244.0.0/24"),
		node("new", "", "10.244.2.0/24"), node("a", "10.99.0.31", "10.244.3.0/24"), node("b", "10.99.0.32", "10.244.3.0/25"), node("in", "10.244.4.7", "10.244.4.0/24")})

	for format, want := range map[string]string{
		"frr":  "ip route 10.244.0.0/24 10.99.0.11\nip route 10.244.1.0/24 10.99.0.21\n",
		"bird": "protocol static porthole4 {\n\tipv4;\n\troute 10.244.0.0/24 via 10.99.0.11; # lin01\n\troute 10.244.1.0/24 via 10.99.0.21; # win01\n}\nprotocol static porthole6 {\n\tipv6;\n}\n",
		"ip":   "ip route replace 10.244.0.0/24 via 10.99.0.11 proto static # lin01\nip route replace 10.244.1.0/24 via 10.99.0.21 proto static # win01\n",
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
  }
]
`,
	} {
		got, err := Export(format, wanted)
		if err != nil || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %v\n%s\nwant at its end\n%s", format, err, got, want)
		}
		for _, reason := range []string{"of node new: ", "overlaps", "lies inside its own pod range"} {
			if format != "json" && !strings.Contains(got, reason) {
				t.Errorf("%s does not say %q:\n%s", format, reason, got)
			}
		}
	}

	if _, err := Export("ios", wanted); err == nil || !strings.Contains(err.Error(), "known: frr, bird, ip, json") {
		t.Errorf("an unknown form: %v", err)
	}
}

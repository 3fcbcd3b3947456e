package tor

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/routes/table"
)

const (
	noSecond   = "node two: no route to 10.244.2.0/24, want one via 10.99.0.12"
	noFirst    = "node one: no route to 10.244.1.0/24, want one via 10.99.0.11"
	wrongHop   = "node two: 10.244.2.0/24 goes to 10.99.0.11 (node one), want 10.99.0.12"
	secondHop  = "node two: 10.244.2.0/24 goes to 10.99.0.11 (node one) besides 10.99.0.12: a part of the connections is lost; remove the other next hop"
	stalePlace = "10.244.9.0/24 via 10.99.0.12: no node has this range"
)

// TestCheck reads what routers print and names each difference.
func TestCheck(t *testing.T) {
	wanted := Wanted([]table.Node{node("one", "10.99.0.11", "10.244.1.0/24", "fd00:1::/64"),
		node("two", "10.99.0.12", "10.244.2.0/24"), node("new", "", "10.244.3.0/24")}, table.Cluster{})
	const waits = "node new: 10.244.3.0/24: waiting: node new has no internal address yet"
	const noSix = "node one: fd00:1::/64: refused: node one has no address of the same family as its pod range fd00:1::/64"

	for name, c := range map[string]struct{ format, in, want string }{
		"ip: all": {"ip",
			`[{"dst":"default","gateway":"10.0.0.1"},{"dst":"10.244.1.0/24","gateway":"10.99.0.11","flags":[]},{"dst":"10.244.2.0/24","gateway":"10.99.0.12","flags":[]}] []`, ""},
		"ip: a link is down, a part goes elsewhere": {"ip",
			`[{"dst":"10.244.1.0/24","gateway":"10.99.0.11","flags":["linkdown"]},{"dst":"10.244.2.0/24","gateway":"10.99.0.12"},{"dst":"10.244.2.128/25","gateway":"10.99.0.9"}]`,
			"node one: 10.244.1.0/24 via 10.99.0.11 is there, and the router does not use it: is 10.99.0.11 reached?\nnode two: 10.244.2.128/25, which is a part of its range 10.244.2.0/24, goes to 10.99.0.9: nobody wants this route"},
		"ip: one to a node, one into nothing": {"ip",
			`[{"dst":"10.244.1.0/24","dev":"eth9","flags":[]},{"dst":"10.244.2.0/24","flags":[],"nexthops":[{"gateway":"10.99.0.12"},{"gateway":"10.99.0.11"}]}]`,
			"node one: 10.244.1.0/24 goes to no next hop, want 10.99.0.11\n" + secondHop},
		"frr: not active": {"frr",
			`{"10.244.1.0/24":[{"selected":true,"installed":true,"nexthops":[{"ip":"10.99.0.11","active":true}]}],"10.244.2.0/24":[{"nexthops":[{"ip":"10.99.0.12"}]}]}{}`,
			"node two: 10.244.2.0/24 via 10.99.0.12 is there, and the router does not use it: is 10.99.0.12 reached?"},
		"bird: another protocol's is not the best": {"bird",
			"BIRD 2.0.12 ready.\nTable master4:\n10.244.1.0/24        unicast [porthole4 12:00:00.000] * (200)\n\tvia 10.99.0.11 on eth0\n                     unicast [bgp1 12:00:00.000] (100)\n\tvia 10.99.0.9 on eth0\n10.244.2.0/24        unicast [porthole4 12:00:00.000] * (200)\n\tvia 10.99.0.12 on eth0\n", ""},
		"json: none": {"json", `[]`, noFirst + "\n" + noSecond},
		"json: stale": {"json",
			`[{"destination":"10.244.1.0/24","nextHop":"10.99.0.11"},{"destination":"10.244.2.0/24","nextHop":"10.99.0.12"},{"destination":"10.244.9.0/24","nextHop":"10.99.0.12"}]`, stalePlace},
	} {
		running, err := ReadRunning(c.format, strings.NewReader(c.in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, line := range Check(wanted, running, []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}) {
			if line != waits && line != noSix {
				got = append(got, line)
			}
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), c.want)
		}
	}

	for format, in := range map[string]string{"ip": "", "frr": "% Unknown command", "bird": "bash: birdc: not found",
		"json": `[{"destination":"x"}]`, "ios": ""} {
		if _, err := ReadRunning(format, strings.NewReader(in)); err == nil {
			t.Errorf("%q is read as %s", in, format)
		}
	}
}

// TestCheckBesideALiar: a node claims a range that holds those of others, and an address of its own with the range of
// another. Nothing is said about the routes of the others, which are right.
func TestCheckBesideALiar(t *testing.T) {
	nodes := []table.Node{
		node("all", "10.99.0.66", "10.244.0.0/22"), node("one", "10.99.0.11", "10.244.1.0/24"),
		node("two", "10.99.0.12", "10.244.2.0/24"), node("twin", "10.99.0.67", "10.244.2.0/24"),
	}
	for i := range nodes {
		nodes[i].Since = time.Unix(int64(i), 0) // the liar with the wide range is the oldest
	}
	var running []Running
	for dst, hop := range map[string]string{"10.244.1.0/24": "10.99.0.11", "10.244.2.0/24": "10.99.0.12"} {
		hops := []netip.Addr{netip.MustParseAddr(hop)}
		running = append(running, Running{Dst: netip.MustParsePrefix(dst), Hops: hops, Static: true})
	}

	pods := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	lines := Check(Wanted(nodes, table.Cluster{NodeBits4: 24}), running, pods)
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "node all: 10.244.0.0/22: refused") ||
		!strings.HasPrefix(lines[1], "node twin: 10.244.2.0/24: refused") {
		t.Errorf("the check says\n%s", strings.Join(lines, "\n"))
	}
}

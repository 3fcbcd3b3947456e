package networks

import (
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
)

// refused has the event reason that each node reports for each liar of checkLiars, in the modes that make routes from
// Node objects.
var refused = map[string]string{
	"liar-range":   "RouteRefused",
	"liar-all":     "RouteRefused",
	"liar-address": "NetworkProblem",
}

// checkLiars creates Node objects that lie: one claims the pod range of win02, one a range that contains it, and one
// the address of win02, with the pod range free. The last one is also there when win02 joins. Packets to win02 still
// arrive. events has the reason of the event that all nodes report, by the name of the liar; it is nil in a mode that
// makes no routes from Node objects.
func (f *fleet) checkLiars(free string, events map[string]string) {
	t := f.t
	t.Helper()
	const nobody = "10.99.0.66"
	taken := netip.MustParsePrefix(f.podRange("win02"))
	wide := netip.PrefixFrom(taken.Addr(), taken.Bits()-3).Masked()
	allReach := func(when string) {
		for _, n := range nodeNames {
			f.reaches(when, f.addr["b-"+n])
			f.reaches(when, f.addr["a-"+n])
		}
	}

	// The one after which win02's Node is a new one comes last: of Nodes that were made in one second the name decides.
	for _, claim := range []struct{ name, podRange, addr string }{
		{"liar-range", taken.String(), nobody},
		{"liar-all", wide.String(), nobody},
		{"liar-address", free, f.nodes["win02"].String()},
	} {
		name, started := claim.name, time.Now()
		f.node(name, claim.podRange, claim.addr)
		if events[name] != "" {
			f.warned(events[name], nodeNames, name)
		}
		if f.mode == "tor" && claim.podRange != free { // the router's table is made from Node objects too
			f.checkRouter("node " + name + ": " + claim.podRange + ": refused")
		}
		allReach(name + " has joined")
		if claim.podRange == free {
			joinAgain(f.lab, "win02", func(*v1.NodeSpec) {})
			allReach("win02 has joined after " + name)
		}
		f.deleteNode(name)
		t.Logf("%s has lied for %v", name, time.Since(started).Round(time.Millisecond))
	}
}

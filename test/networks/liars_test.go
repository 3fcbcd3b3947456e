package networks

import (
	"net/netip"
	"time"
)

// refused is what nodes say that make routes from Node objects.
var refused = map[string]string{"liar-range": "RouteRefused", "liar-all": "RouteRefused", "liar-address": "NetworkProblem"}

// checkLiars has a Node that joins last claim what others have: the range of win02, the range of all pods, the address of win02 for a range that is free.
// Packets go where they went before. says has the reasons of the events with which nodes tell of it, by the liar's name; a mode that makes no routes from
// Node objects has none.
func (f *fleet) checkLiars(free string, says map[string]string) {
	t := f.t
	t.Helper()
	const nobody = "10.99.0.66"
	taken := netip.MustParsePrefix(f.podRange("win02"))
	wide := netip.PrefixFrom(taken.Addr(), taken.Bits()-3).Masked()

	for name, claim := range map[string]struct{ podRange, addr string }{
		"liar-range":   {taken.String(), nobody},
		"liar-all":     {wide.String(), nobody},
		"liar-address": {free, f.nodes["win02"].String()},
	} {
		started := time.Now()
		f.node(name, claim.podRange, claim.addr)
		if says[name] != "" {
			f.warned(says[name], nodeNames, name)
		}
		for _, n := range nodeNames {
			f.reaches(name+" has joined", f.addr["b-"+n])
			f.reaches(name+" has joined", f.addr["a-"+n])
		}
		f.deleteNode(name)
		t.Logf("%s has lied for %v", name, time.Since(started).Round(time.Millisecond))
	}
}

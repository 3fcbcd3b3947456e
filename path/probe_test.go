package path

import (
	"net/netip"
	"strings"
	"testing"
)

// TestWitness: where a probe was lost, and which hop it did not pass.
func TestWitness(t *testing.T) {
	pod, other := netip.MustParseAddrPort("10.244.1.7:80"), netip.MustParseAddrPort("10.244.0.4:80")
	at := func(names ...string) (list []Sighting) {
		for _, name := range names {
			answer := strings.HasPrefix(name, "<")
			list = append(list, Sighting{At: strings.TrimPrefix(name, "<"), To: pod, Interface: "eth0", Answer: answer})
		}
		return list
	}
	hops := func(wrong int) (list []Hop) {
		for _, h := range [][2]string{{"win02", "endpoint"}, {"win02", "route"}, {"lin01", "route"},
			{"win01", "endpoint"}} {
			list = append(list, Hop{At: h[0], What: h[1]})
		}
		if wrong >= 0 {
			list[wrong].Wrong = &Wrong{Found: "x"}
			list = list[:wrong+1]
		}
		return list
	}
	receiver := func(a netip.Addr) string {
		return map[netip.Addr]string{pod.Addr(): "shop/b", other.Addr(): "shop/c"}[a]
	}

	for name, c := range map[string]struct {
		wrong  int
		seen   []Sighting
		answer string
		hop    int
		text   string
	}{
		"it arrives": {-1,
			at("shop/a", "win02", "lin01", "win01", "shop/b", "<shop/b", "<shop/a"), "an answer", -1, ""},
		"seen nowhere": {-1, nil, "", 0, "seen nowhere"},
		"a route is wrong on paper too": {1, at("shop/a", "win02", "router"), "", 1,
			"last seen on router (in eth0), and shop/b did not get it"},
		"wrong on paper, but it arrives": {1, at("shop/a", "win02", "shop/b"), "", -1, ""},
		"lost between machines":          {-1, at("shop/a", "win02"), "", 2, "last seen on win02"},
		"lost on the last machine": {-1, at("shop/a", "win02", "lin01", "win01"), "", 3,
			"shop/b did not get it"},
		"wrong on paper where it was not": {3, at("shop/a", "win02", "lin01"), "", 3, "last seen on lin01"},
		"the answer is lost on the way": {-1, at("shop/a", "win02", "lin01", "win01", "shop/b", "<shop/b", "<win01"),
			"", -1, "the answer was last seen on win01"},
		"nobody answers, which is no loss": {-1, at("shop/a", "win02", "lin01", "win01", "shop/b"), "", -1, ""},
	} {
		r := Result{Ways: []Way{{Backend: other, Hops: []Hop{{At: "lin01"}}}, {Backend: pod, Hops: hops(c.wrong)}}}
		p := &Probe{Sightings: c.seen, Answer: c.answer}
		if c.seen == nil { // nothing says which way it took
			r.Ways = r.Ways[1:]
		}
		r.Witness(p, netip.MustParseAddr("10.96.0.1"), receiver)
		text := p.Lost + p.AnswerLost
		if p.Hop != c.hop || !strings.Contains(text, c.text) || (text == "") != (c.text == "") ||
			c.seen != nil && p.Way != 1 {
			t.Errorf("%s: way %d, hop %d: %q; want hop %d: %q", name, p.Way, p.Hop, text, c.hop, c.text)
		}
	}
}

package vxlan

import (
	"net/netip"
	"testing"
	"time"
)

// TestSilentNodes asks a node that never answers less and less often, at last as often as one that answers.
func TestSilentNodes(t *testing.T) {
	node := netip.MustParseAddr("10.99.0.12")
	p := newProber(nil)
	p.expect([]netip.Addr{node}, 1500)
	if due, mtu := p.due(time.Now()); len(due) != 1 || mtu != 1500 {
		t.Fatalf("a new node: due are %v with %d bytes, want it with 1500", due, mtu)
	}

	asked := []netip.Addr{node}
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute,
		8 * time.Minute, 16 * time.Minute, probeAgain} {
		p.learn(asked, nil, 1500)
		if due, _ := p.due(time.Now().Add(want - time.Second)); len(due) != 0 {
			t.Errorf("silent %d times: asked again before %s", i+1, want)
		}
		if due, _ := p.due(time.Now().Add(want + time.Second)); len(due) != 1 {
			t.Errorf("silent %d times: not asked again after %s", i+1, want)
		}
	}

	p.learn(asked, map[netip.Addr]int{node: 1500}, 1500)
	p.learn(asked, nil, 1500)
	if due, _ := p.due(time.Now().Add(31 * time.Second)); len(due) != 1 {
		t.Error("a node that had answered meanwhile counts as silent for long")
	}
}

// TestNews: it is news that packets of the uplink's size do not get to a node, or do again; that they do from the
// beginning is none.
func TestNews(t *testing.T) {
	node := netip.MustParseAddr("10.99.0.12")
	p := newProber(nil)
	p.expect([]netip.Addr{node}, 1500)
	for _, c := range []struct {
		size int
		want bool
	}{{1500, false}, {0, false}, {1500, false}, {1400, true}, {1400, false}, {1300, true}, {0, true}, {1400,
		true}, {1500, true}} {
		p.due(time.Now().Add(time.Hour))
		if news, _ := p.learn([]netip.Addr{node}, map[netip.Addr]int{node: c.size}, 1500); news != c.want {
			t.Errorf("packets of %d bytes arrive: news is %t", c.size, news)
		}
	}
}

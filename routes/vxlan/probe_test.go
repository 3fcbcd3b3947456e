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
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, probeAgain} {
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

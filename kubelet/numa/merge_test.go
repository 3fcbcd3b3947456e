package numa

import (
	"fmt"
	"testing"
)

func TestMasks(t *testing.T) {
	if got := fmt.Sprint(Masks([]int{2, 0, 1})); got != "[1 2 4 3 5 6 7]" {
		t.Error(got)
	}
	if m := MaskOf(0, 63); m.Count() != 2 || !m.Has(63) || m.Has(-1) || m.Has(64) || fmt.Sprint(m.Nodes()) != "[0 63]" {
		t.Error(m.Nodes())
	}
}

// TestMerge: what upstream's policies decide (topologymanager/policy_test.go of 1.36.3 has the same kinds of cases).
func TestMerge(t *testing.T) {
	good := func(nodes ...int) Hint { return Hint{MaskOf(nodes...), true} }
	bad := func(nodes ...int) Hint { return Hint{MaskOf(nodes...), false} }
	for _, c := range []struct {
		name       string
		lists      [][]Hint
		want       Hint // of best-effort and restricted
		single     Hint
		restricted bool // whether these policies allow it
		one        bool
	}{
		{"nothing asked for", nil, good(0, 1), good(), true, true},
		{"no preference", [][]Hint{NoPreference()}, good(0, 1), good(), true, true},
		{"one resource", [][]Hint{{good(0), good(1), bad(0, 1)}}, good(0), good(0), true, true},
		{"two agree", [][]Hint{{good(0), good(1), bad(0, 1)}, {good(1), bad(0, 1)}}, good(1), good(1), true, true},
		{"two do not agree", [][]Hint{{good(0)}, {good(1)}}, bad(0, 1), bad(), false, false},
		{"one needs both nodes", [][]Hint{{good(0, 1)}}, good(0, 1), bad(), true, false},
		{"one must spread because others are in its way", [][]Hint{{bad(0, 1)}, {good(0), good(1), bad(0, 1)}},
			bad(0, 1), bad(), false, false},
		{"one cannot be had", [][]Hint{Impossible(), {good(0)}}, bad(0), bad(), false, false},
		{"no preference beside one", [][]Hint{NoPreference(), {good(1), bad(0, 1)}}, good(1), good(1), true, true},
	} {
		for policy, want := range map[string]Hint{PolicyBestEffort: c.want, PolicyRestricted: c.want,
			PolicySingleNode: c.single} {

			p := Policy{Name: policy, Machine: &Machine{Nodes: []Node{{ID: 0}, {ID: 1}}}}
			allowed := map[string]bool{PolicyBestEffort: true, PolicyRestricted: c.restricted,
				PolicySingleNode: c.one}[policy]
			if got, ok := p.Merge(c.lists); got != want || ok != allowed {
				t.Errorf("%s, %s: %+v, %v; want %+v, %v", c.name, policy, got, ok, want, allowed)
			}
		}
	}
}

// TestMergeClosest: of two pairs of nodes, the one with the shorter way.
func TestMergeClosest(t *testing.T) {
	m := &Machine{Nodes: []Node{{0, 0, nil, []uint64{10, 30, 20}}, {1, 0, nil, []uint64{30, 10, 30}},
		{2, 0, nil, []uint64{20, 30, 10}}}}
	lists := [][]Hint{{{MaskOf(0, 1), true}, {MaskOf(0, 2), true}}}
	for closest, want := range map[bool]Mask{false: MaskOf(0, 1), true: MaskOf(0, 2)} {
		if got, _ := (Policy{Name: PolicyRestricted, Closest: closest, Machine: m}).Merge(lists); got.Nodes != want {
			t.Errorf("closest %v: %v", closest, got.Nodes.Nodes())
		}
	}
}

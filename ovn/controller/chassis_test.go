package controller

import (
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/ovn/nb"
)

// TestRivals: two hosts that write one chassis in turn are a problem until they stop. An address that changes is none.
func TestRivals(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var r rivals
	see := func(after time.Duration, host string) bool { now = now.Add(after); return r.saw(now, "n2", host) }
	for _, host := range []string{"10.99.0.12 (host n2)", "", "10.99.0.32 (host n2)", "10.99.0.32 (host n2)"} {
		if see(time.Second, host) || len(r.problems(now)) > 0 {
			t.Errorf("an address that changes to %q: %v", host, r.problems(now))
		}
	}

	see(time.Minute, "10.99.0.12 (host n2)") // back
	for i, host := range []string{"10.99.0.19 (host vm)", "10.99.0.12 (host n2)", "10.99.0.19 (host vm)",
		"10.99.0.12 (host n2)"} {
		if got, want := see(100*time.Millisecond, host), i == 2; got != want {
			t.Errorf("change %d: %v, want %v", i, got, want)
		}
	}
	p := r.problems(now.Add(quietAfter))
	if len(p) != 1 || p[0].Kind != "Node" || p[0].Key != "n2" ||
		!strings.Contains(p[0].Text, "10.99.0.12 (host n2) and 10.99.0.19 (host vm)") {
		t.Errorf("%v", p)
	}
	if p := r.problems(now.Add(quietAfter + time.Second)); len(p) > 0 {
		t.Errorf("afterwards: %v", p)
	}

	for i := range 8 { // a network whose addresses are given anew again and again
		if see(100*time.Millisecond, strings.Repeat("1", i+1)) {
			t.Errorf("address %d of one host", i)
		}
	}
}

func TestChassisOf(t *testing.T) {
	got := chassisOf(nb.Rows{
		"Chassis": {"1": {"name": "n1", "hostname": "n1",
			"encaps": []any{"set", []any{[]any{"uuid", "a"}, []any{"uuid", "b"}}}},
			"2": {"name": "n2", "encaps": []any{"set", []any{}}}},
		"Encap": {"a": ovsdb.Row{"ip": "10.0.0.1"}, "b": ovsdb.Row{"ip": "10.0.0.1"}},
	})
	if len(got) != 1 || got["n1"] != "10.0.0.1 (host n1)" {
		t.Errorf("%v", got)
	}
}

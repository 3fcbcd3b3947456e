package kubelet

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestNodeLabels(t *testing.T) {
	labels, err := parseLabels("a=b,node.kubernetes.io/pool=x,kubelet.kubernetes.io/y=,example.com/z=1,topology.kubernetes.io/zone=z")
	if err != nil || len(labels) != 5 || labels["node.kubernetes.io/pool"] != "x" {
		t.Errorf("labels %v, error %v", labels, err)
	}
}

func TestNodeIPs(t *testing.T) {
	for _, c := range []struct{ text, name, want string }{
		{"192.0.2.7", "n", "192.0.2.7"},
		{"192.0.2.7, fd00::7", "n", "192.0.2.7 fd00::7"},
		{"", "192.0.2.8", "192.0.2.8"},
	} {
		if got, err := nodeIPs(c.text, c.name); err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q for %q: %v, error %v", c.text, c.name, got, err)
		}
	}
}

// TestCollectLessInBursts: a burst allows more garbage, afterwards the limit is as before. A user who sets Go's own variables decides
// alone.
func TestCollectLessInBursts(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if collectLessInBursts(func(asked string) string { return map[string]string{name: "50"}[asked] }) != nil {
			t.Errorf("with %s set there is still something that changes it", name)
		}
	}
	before := debug.SetGCPercent(usualGarbage)
	defer debug.SetGCPercent(before)
	burst := collectLessInBursts(func(string) string { return "" })
	burst(true)
	during := debug.SetGCPercent(burstGarbage)
	burst(false)
	if after := debug.SetGCPercent(usualGarbage); during != burstGarbage || after != usualGarbage {
		t.Errorf("garbage collection begins at %d %% during a burst and %d %% after it, want %d and %d", during, after, burstGarbage, usualGarbage)
	}
}

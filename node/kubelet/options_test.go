package kubelet

import (
	"runtime/debug"
	"testing"
)

func TestNodeLabels(t *testing.T) {
	labels, err := parseLabels("a=b,node.kubernetes.io/pool=x,kubelet.kubernetes.io/y=,example.com/z=1,topology.kubernetes.io/zone=z")
	if err != nil || len(labels) != 5 || labels["node.kubernetes.io/pool"] != "x" {
		t.Errorf("labels %v, error %v", labels, err)
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

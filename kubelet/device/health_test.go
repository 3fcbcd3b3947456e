package device

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestHealth: a pod's status shows which of its devices are unhealthy.
func TestHealth(t *testing.T) {
	table := newTable()
	table.replace(gpu, devices("a b"))
	table.claims[key{"p", "c", gpu}] = claim{devices: devices("a b")}
	table.claims[key{"p", "c", "example.com/nic"}] = claim{devices: devices("x")}
	table.claims[key{"q", "c", gpu}] = claim{devices: devices("z")}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {},
			"map[c:[{example.com/gpu [{a Healthy <nil>} {b Healthy <nil>}]} {example.com/nic [{x Healthy <nil>}]}]]"},
		{func() { table.replace(gpu, devices("a b!")) },
			"map[c:[{example.com/gpu [{a Healthy <nil>} {b Unhealthy <nil>}]} {example.com/nic [{x Healthy <nil>}]}]]"},
		{func() { table.lose(gpu, time.Now()) },
			"map[c:[{example.com/gpu [{a Unhealthy <nil>} {b Unhealthy <nil>}]} {example.com/nic [{x Healthy <nil>}]}]]"},
		{func() { table.replace(gpu, devices("b")) },
			"map[c:[{example.com/gpu [{a Healthy <nil>} {b Healthy <nil>}]} {example.com/nic [{x Healthy <nil>}]}]]"},
	} {
		step.change()
		if got := fmt.Sprint(table.health("p")); got != step.want {
			t.Errorf("%s, want %s", got, step.want)
		}
	}

	was := []v1.ContainerStatus{{Name: "c"}, {Name: "other"}}
	got := WithHealth(was, table.health("p"))
	if len(got[0].AllocatedResourcesStatus) != 2 || got[1].AllocatedResourcesStatus != nil ||
		was[0].AllocatedResourcesStatus != nil {
		t.Errorf("%+v of %+v", got, was)
	}
}

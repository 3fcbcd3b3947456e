package nodestatus

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPressureConditions(t *testing.T) {
	o, f := someNode()
	before := statusOf(o, f, v1.NodeStatus{})
	f.pressed = map[v1.NodeConditionType]bool{v1.NodeMemoryPressure: true, v1.NodeDiskPressure: true,
		v1.NodePIDPressure: true}
	after := statusOf(o, f, before)
	for kind, want := range map[v1.NodeConditionType][2]string{
		v1.NodeMemoryPressure: {"KubeletHasInsufficientMemory", "kubelet has insufficient memory available"},
		v1.NodeDiskPressure:   {"KubeletHasDiskPressure", "kubelet has disk pressure"},
		v1.NodePIDPressure:    {"KubeletHasInsufficientPID", "kubelet has insufficient PID available"},
	} {
		if c := condition(after, kind); c.Status != v1.ConditionTrue || c.Reason != want[0] || c.Message != want[1] {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	if got := transitions(before.Conditions, after.Conditions); !slices.Equal(got,
		[]string{"NodeHasInsufficientMemory", "NodeHasDiskPressure", "NodeHasInsufficientPID"}) {
		t.Errorf("events: %v", got)
	}
}

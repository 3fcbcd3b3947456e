package host

import (
	"reflect"
	"testing"
)

// TestInventoryOfWindows reads tables as ctr.exe 2.3.6 prints them.
func TestInventoryOfWindows(t *testing.T) {
	for kind, c := range map[string]struct {
		table string
		want  []Item
	}{
		"containers": {"CONTAINER    IMAGE    RUNTIME    \r\nb    docker.io/x:1    io.containerd.runhcs.v1    \r\na    docker.io/pause:1    io.containerd.runhcs.v1    ",
			[]Item{{"a", "docker.io/pause:1"}, {"b", "docker.io/x:1"}}},
		"tasks":     {"TASK    PID    STATUS    \na    32074    RUNNING\n", []Item{{"a", "RUNNING pid 32074"}}},
		"images":    {"REF TYPE DIGEST SIZE PLATFORMS LABELS \ndocker.io/x:1 application/t sha256:1 1.2 MiB windows/amd64 - ", []Item{{"docker.io/x:1", "sha256:1"}}},
		"snapshots": {"KEY    PARENT    KIND      \nsha256:1              Committed \nk      sha256:1 Active", []Item{{"k", "sha256:1"}, {"sha256:1", ""}}},
	} {
		if got := parseInventory(kind, c.table); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", kind, got, c.want)
		}
	}
	if got := parseInventory("tasks", "TASK    PID    STATUS    "); got == nil || len(got) != 0 {
		t.Errorf("an empty table: %v", got)
	}
}

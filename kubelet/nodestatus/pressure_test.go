package nodestatus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/platform"
)

// Row 1.13.
func TestPressures(t *testing.T) {
	p := newPressures([]Threshold{{Signal: "memory.available", Least: 100}, {Signal: "nodefs.available", Percent: 10},
		{Signal: "nodefs.inodesFree", Percent: 50, Grace: 30 * time.Second}, {Signal: "pid.available", Least: 5}, {Signal: "strange", Least: 1}}, time.Minute)

	start := time.Unix(1000, 0)
	for _, step := range []struct {
		at                         time.Duration
		memory, disk, inodes, pids uint64 // left of 1000
		want                       string
	}{
		{0, 100, 100, 500, 5, ""},
		{10 * time.Second, 99, 100, 499, 5, "MemoryPressure"},
		{20 * time.Second, 500, 99, 499, 5, "DiskPressure MemoryPressure"},
		{40 * time.Second, 500, 500, 499, 5, "DiskPressure MemoryPressure"}, // the inodes' grace is over
		{69 * time.Second, 500, 500, 500, 4, "DiskPressure MemoryPressure PIDPressure"},
		{70 * time.Second, 500, 500, 499, 5, "DiskPressure PIDPressure"}, // and begins again
		{100 * time.Second, 500, 500, 500, 5, "PIDPressure"},
		{130 * time.Second, 500, 500, 500, 5, ""},
	} {

		levels := map[string]level{"memory.available": {step.memory, 1000}, "nodefs.available": {step.disk, 1000}, "nodefs.inodesFree": {step.inodes, 1000},
			"pid.available": {step.pids, 1000}}
		var got []string
		for c := range p.update(levels, start.Add(step.at)) {
			got = append(got, string(c))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != step.want {
			t.Errorf("after %v: %v, want %s", step.at, got, step.want)
		}
	}

	if got := newPressures([]Threshold{{Signal: "nodefs.inodesFree", Percent: 5}}, 0).update(map[string]level{"nodefs.inodesFree": {0, 0}}, start); len(got) > 0 {
		t.Errorf("a file system without inodes: %v", got)
	}
}

func TestLevels(t *testing.T) {
	node := platform.Usage{MemoryTotal: 10, MemoryWorkingSet: 4, Disk: platform.Disk{DiskAvailable: 2, DiskTotal: 3, Inodes: 9, InodesFree: 8}, MaxTasks: 7, Tasks: 1}
	images := platform.Disk{DiskAvailable: 1, DiskTotal: 2}
	if got := fmt.Sprint(levelsOf(node, images)); got != "map[imagefs.available:{1 2} imagefs.inodesFree:{0 0} memory.available:{6 10} nodefs.available:{2 3} nodefs.inodesFree:{8 9} pid.available:{6 7}]" {
		t.Errorf("Linux: %s", got)
	}
	node.MaxTasks, node.CommitLimit, node.CommitTotal = 0, 20, 5
	if got := levelsOf(node, images); got["memory.available"] != (level{15, 20}) || got["pid.available"].whole != 0 {
		t.Errorf("Windows: %v", got)
	}
}

func TestPressureConditions(t *testing.T) {
	o, f := someNode()
	before := statusOf(o, f, v1.NodeStatus{})
	f.pressed = map[v1.NodeConditionType]bool{v1.NodeMemoryPressure: true, v1.NodeDiskPressure: true, v1.NodePIDPressure: true}
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
	if got := transitions(before.Conditions, after.Conditions); !slices.Equal(got, []string{"NodeHasInsufficientMemory", "NodeHasDiskPressure", "NodeHasInsufficientPID"}) {
		t.Errorf("events: %v", got)
	}
}

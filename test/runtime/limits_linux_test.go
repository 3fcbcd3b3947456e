package runtime

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// cgroup reads the first of the files that there is of a container's limits: one of each version of cgroups.
func (w containers) cgroup(t *testing.T, id string, files ...string) string {
	t.Helper()
	for _, name := range files {
		controller, file, _ := strings.Cut(name, "/")
		data, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", controller, "porthole", w.name, "hcs", id, file))
		if err == nil {
			return strings.TrimSpace(string(data))
		}
	}
	t.Errorf("container %s has no %v", id, files)
	return ""
}

// testStatistics compares what containerd tells of a container and its pod with what it was given and has done.
func (w containers) testStatistics(t *testing.T, p pod, id string, limit uint64) {
	if got := w.cgroup(t, id, "memory/memory.limit_in_bytes", "unified/memory.max"); got != fmt.Sprint(limit) {
		t.Errorf("memory limit %s, want %d", got, limit)
	}
	if got := w.cgroup(t, id, "cpu/cpu.cfs_quota_us", "unified/cpu.max"); strings.HasPrefix(got, "-1") ||
		strings.HasPrefix(got, "max") {
		t.Errorf("processor time is not limited: %s", got)
	}

	var before, after *runtimeapi.ContainerStatsResponse
	read := func() *runtimeapi.ContainerStatsResponse {
		r, err := w.runtime.ContainerStats(call(t), &runtimeapi.ContainerStatsRequest{ContainerId: id})
		check(t, err)
		return r
	}
	before = read()
	w.shell(t, id, `C:\testapp.exe burn 1`)
	after = read()
	used := after.Stats.GetCpu().GetUsageCoreNanoSeconds().GetValue() - before.Stats.GetCpu().GetUsageCoreNanoSeconds().
		GetValue()
	memory := after.Stats.GetMemory().GetWorkingSetBytes().GetValue()
	if used < uint64(50*time.Millisecond) || memory < 1<<20 || memory > limit {
		t.Errorf("a second of work took %d ns of processors, with a working set of %d bytes", used, memory)
	}

	list, err := w.runtime.ListContainerStats(call(t),
		&runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{PodSandboxId: p.id}})
	if err != nil || len(list.Stats) != 2 {
		t.Errorf("statistics of the pod's containers: %v, %v", list, err)
	}
	pod, err := w.runtime.PodSandboxStats(call(t), &runtimeapi.PodSandboxStatsRequest{PodSandboxId: p.id})
	if err != nil {
		t.Fatal(err)
	}
	s := pod.Stats.GetWindows()
	if s.GetCpu().GetUsageCoreNanoSeconds().GetValue() < used ||
		s.GetMemory().GetWorkingSetBytes().GetValue() < memory/2 || len(s.GetContainers()) != 2 {
		t.Errorf("statistics of the pod: %v", s)
	}
	t.Logf("network: %v", s.GetNetwork())

	ps := w.must("run", w.name, "--", `C:\Program Files\containerd\ctr.exe`, "--namespace", "k8s.io", "task", "ps", id)
	if !strings.Contains(ps, "PID") || len(strings.Split(strings.TrimSpace(ps), "\n")) < 2 {
		t.Errorf("ctr.exe task ps:\n%s", ps)
	}
}

// commitmentLimit is STATUS_COMMITMENT_LIMIT of ntstatus.h, the exit code of a program that was refused memory.
const commitmentLimit = 0xC000012D

// testMemory has a program that takes more memory than its container may have: it fails for that.
func (w containers) testMemory(t *testing.T, p pod) {
	c, err := w.runtime.CreateContainer(call(t),
		&runtimeapi.CreateContainerRequest{PodSandboxId: p.id, SandboxConfig: p.config,
			Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "hog"}, Image: &runtimeapi.ImageSpec{Image: testImage},
				LogPath: "hog.log",
				Command: []string{`C:\testapp.exe`, "hog", "512"},
				Windows: &runtimeapi.WindowsContainerConfig{
					Resources: &runtimeapi.WindowsContainerResources{MemoryLimitInBytes: 128 << 20}},
			}})
	check(t, err)
	_, err = w.runtime.StartContainer(call(t), &runtimeapi.StartContainerRequest{ContainerId: c.ContainerId})
	check(t, err)
	var status *runtimeapi.ContainerStatus
	wait.True(t, time.Minute, "the container ends", func() bool {
		r, err := w.runtime.ContainerStatus(call(t), &runtimeapi.ContainerStatusRequest{ContainerId: c.ContainerId})
		if err != nil {
			return false
		}
		status = r.Status
		return status.State == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	if uint32(status.ExitCode) != commitmentLimit || status.Reason != "Error" {
		t.Errorf("a program over its limit ended with code %#x, %s", uint32(status.ExitCode), status.Reason)
	}
}

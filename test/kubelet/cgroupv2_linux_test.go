package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/testkit/uml"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/kubelet/cgroup"
)

// inside is set for the tests that TestCgroupV2 runs on a kernel of its own, long for those that take minutes.
const (
	inside = "PORTHOLE_IN_CGROUP_V2"
	long   = "PORTHOLE_CGROUP_V2"
)

// ofKernel are tests of packages that need a kernel of their own, or one with cgroup v2. Elsewhere they skip.
var ofKernel = map[string][]string{
	"kubelet/cgroup":    {"TestTree", "TestShare", "TestReserved", "TestResize", "TestRemoveContainer"},
	"internal/platform": {"TestSetKernel", "TestCgroupRules"},
}

// TestCgroupV2 runs the tests of cgroups, and, with `make test-cgroup-v2`, the kubelet with its pods, on a kernel that
// has cgroup v2 alone: the machine on which the tests run may have version 1.
func TestCgroupV2(t *testing.T) {
	onKernel(t, false, ofKernel, "TestInCgroupV2")
}

// onKernel boots a kernel, on which it runs these tests of packages, and, with `make test-cgroup-v2`, the test of this
// package called pods.
func onKernel(t *testing.T, systemd bool, units map[string][]string, pods string) {
	t.Helper()
	if why := uml.Missing(); why != "" {
		t.Skip(why)
	}
	here, err := os.Getwd()
	must(t, err)
	this, err := os.Executable()
	must(t, err)

	script, wanted := "export PORTHOLE_OWN_KERNEL=1 && cd "+here, []string{}
	for folder, tests := range units {
		unit := filepath.Join(t.TempDir(), filepath.Base(folder)+".test")
		if out, err := osexec.Command("go", "test", "-c", "-o", unit, "porthole.dev/porthole/"+folder).
			CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		script += fmt.Sprintf(" && %s -test.v -test.run '^(%s)$'", unit, strings.Join(tests, "|"))
		wanted = append(wanted, tests...)
	}
	if os.Getenv(long) != "" {
		script += fmt.Sprintf(" && %s=1 %s -test.v -test.timeout 14m -test.run '^%s$'", inside, this, pods)
		wanted = append(wanted, pods)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	out, err := uml.Run(ctx, uml.Options{Memory: "4G", Swap: "256M", Systemd: systemd, Script: script})
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, test := range wanted {
		if !strings.Contains(out, "--- PASS: "+test+" ") {
			t.Errorf("%s did not pass: %s", test, out)
		}
	}
}

// TestInCgroupV2 runs a kubelet and pods. TestCgroupV2 starts it, on the kernel that it boots.
func TestInCgroupV2(t *testing.T) {
	if os.Getenv(inside) == "" {
		t.Skip("TestCgroupV2 runs it")
	}
	w := newWorld(t, setup{limit: 14 * time.Minute})
	w.run(t, "limits", testCgroupFiles)
	w.run(t, "figures", testCgroupFigures)
	w.run(t, "out of memory", testOutOfMemory)
	w.run(t, "resize", testResize)
	w.nothingLeft(t)
}

// testCgroupFiles: the cgroups of pods of all classes, of the classes and of all pods have the limits that upstream's
// kubelet gives them.
func testCgroupFiles(t *testing.T, w *world) {
	defer func() {
		w.kubelet.Stop()
		w.KubeletConfig = nil
		w.startKubelet()
	}()
	w.KubeletConfig = map[string]any{"memorySwap": map[string]string{"swapBehavior": "LimitedSwap"},
		"podPidsLimit": 200, "cpuCFSQuotaPeriod": "50ms"}
	saw := sameOnBoth(t, w, func(bool) string {
		pods := cgroupPods()
		for _, p := range pods {
			w.create(t, p)
		}
		names := map[string]string{}
		for _, p := range pods {
			p = w.until(t, 4*time.Minute, p.Name, ready)
			names["pod"+string(p.UID)] = "pod " + p.Name
			for _, c := range append(p.Status.ContainerStatuses, p.Status.InitContainerStatuses...) {
				_, id, _ := strings.Cut(c.ContainerID, "://")
				names[id] = "container " + c.Name
			}
			boxes, err := w.sandboxesOf(p)
			must(t, err)
			for _, id := range boxes {
				names[id] = "sandbox"
			}
		}

		saw := cgroupFiles(t, w, names)
		for _, p := range pods {
			w.remove(t, p.Name, nil)
		}
		for _, p := range pods {
			w.untilGone(t, p.Name)
		}
		return saw
	})
	for _, want := range []string{"kubepods/burstable/pod burstable/container app memory.oom.group 1",
		"kubepods/burstable/pod burstable/container app memory.max 67108864",
		"kubepods/pod guaranteed/container app cpu.max 1000 50000",
		"kubepods/pod guaranteed/container app memory.swap.max 0", "kubepods/pod guaranteed pids.max 200"} {
		if !strings.Contains(saw, want+"\n") {
			t.Errorf("nothing says %q:\n%s", want, saw)
		}
	}
	if none := regexp.MustCompile(`pod burstable/container app memory.swap.max (0|max)\n`); none.MatchString(saw) {
		t.Errorf("a container of a burstable pod has no part of the swap space:\n%s", saw)
	}
}

// cgroupPods are pods of each class, one with limits as a whole, and one with a sidecar.
func cgroupPods() []*v1.Pod {
	guaranteed, burstable, effort, whole := newPod("guaranteed", "sleep"), newPod("burstable",
		"sleep"), newPod("effort", "sleep"), newPod("whole", "sleep")
	guaranteed.Spec.Containers[0].Resources = exactly("20m", "32Mi")

	burstable.Spec.Containers[0].Resources = v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"),
			v1.ResourceMemory: resource.MustParse("32Mi")},
		Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}}
	always := v1.ContainerRestartPolicyAlways
	side := container("side", "sleep")
	side.RestartPolicy = &always
	burstable.Spec.InitContainers = []v1.Container{side}

	whole.Spec.Resources = wholeResources("200m", "64Mi")
	return []*v1.Pod{guaranteed, burstable, effort, whole}
}

var limitFiles = []string{"cgroup.subtree_control", "cpu.max", "cpu.weight", "memory.high", "memory.low", "memory.max",
	"memory.min", "memory.oom.group", "memory.swap.max", "pids.max"}

// cgroupFiles returns a line for each limit of each cgroup of the world, sorted, with names in place of ids.
func cgroupFiles(t *testing.T, w *world, names map[string]string) string {
	root := filepath.Join("/sys/fs/cgroup", podsRoot(w))
	var lines []string
	must(t, filepath.WalkDir(groupOfPods(w), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		parts := strings.Split(rel, "/")
		for i := range parts {
			parts[i] = cgroup.NameIn(filepath.Join(strings.Split(rel, "/")[:i+1]...))
			if name := names[parts[i]]; name != "" {
				parts[i] = name
			}
		}

		for _, file := range limitFiles {
			if text, err := os.ReadFile(filepath.Join(path, file)); err == nil {
				lines = append(lines, fmt.Sprintf("%s %s %s\n", strings.Join(parts, "/"), file,
					strings.TrimSpace(string(text))))
			}
		}
		if strings.HasSuffix(path, ".slice") {
			lines = append(lines, unitLines(t, strings.Join(parts, "/"), filepath.Base(path))...)
		}
		return err
	}))
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// testCgroupFigures: the statistics of a container are those of its cgroup.
func testCgroupFigures(t *testing.T, w *world) {
	p := newPod("figures", "hog", "40")
	p.Spec.Containers[0].Resources = exactly("100m", "96Mi")
	w.create(t, p)
	p = w.until(t, time.Minute, p.Name, ready)
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")

	must(t, wait.For(w.ctx, time.Minute, "the figures of the container", func(context.Context) error {
		var all statsapi.Summary
		if err := json.Unmarshal([]byte(ask(t, w, "stats/summary")), &all); err != nil {
			return err
		}
		for _, s := range all.Pods {
			if s.PodRef.Name != p.Name || len(s.Containers) != 1 {
				continue
			}
			c := s.Containers[0]
			if c.Memory == nil || c.Memory.WorkingSetBytes == nil || *c.Memory.WorkingSetBytes < 40<<20 ||
				*c.Memory.WorkingSetBytes > 96<<20 {
				return fmt.Errorf("memory %+v", c.Memory)
			}
			if c.CPU == nil || c.CPU.UsageCoreNanoSeconds == nil || *c.CPU.UsageCoreNanoSeconds == 0 {
				return fmt.Errorf("processors %+v", c.CPU)
			}
			if s.ProcessStats == nil || *s.ProcessStats.ProcessCount == 0 {
				return fmt.Errorf("processes %+v", s.ProcessStats)
			}
			return nil
		}
		return errors.New("the pod is not in it")
	}))

	page := ask(t, w, "metrics/cadvisor")
	limit := regexp.MustCompile(`container_spec_memory_limit_bytes\{container="app",id="[^"]*` + id +
		`(?:\.scope)?".*\} (\S+)`).FindStringSubmatch(page)
	if limit == nil || limit[1] != "1.00663296e+08" {
		t.Errorf("the limit of memory is %v", limit)
	}
	for _, name := range []string{"container_memory_rss", "container_memory_usage_bytes",
		"container_cpu_usage_seconds_total", "container_processes"} {
		if !regexp.MustCompile(name + `\{container="app",.*id="[^"]*` + id + `(\.scope)?".*\} (0\.0*)?[1-9]`).
			MatchString(page) {
			t.Errorf("%s has no figure of the container", name)
		}
	}
	w.remove(t, p.Name, nil)
	w.untilGone(t, p.Name)
}

// testOutOfMemory: if one process of a container takes more memory than there is, all processes of the container end,
// as upstream's kubelet wants it with cgroup v2, and with singleProcessOOMKill that one alone.
func testOutOfMemory(t *testing.T, w *world) {
	p := newPod("full", "sleep")
	p.Spec.Containers[0].Resources = exactly("500m", "48Mi")
	w.create(t, p)
	p = w.until(t, time.Minute, p.Name, ready)
	takeTooMuch(t, w, p)
	p = w.until(t, time.Minute, p.Name, func(p *v1.Pod) error {
		if s := p.Status.ContainerStatuses[0]; s.RestartCount != 1 || s.LastTerminationState.Terminated == nil ||
			s.LastTerminationState.Terminated.Reason != "OOMKilled" {
			return fmt.Errorf("it was not restarted for want of memory: %s", statusText(p))
		}
		return ready(p)
	})
	w.remove(t, p.Name, nil)
	w.untilGone(t, p.Name)

	withConfig(func(t *testing.T, w *world) {
		p := newPod("single", "sleep")
		p.Spec.Containers[0].Resources = exactly("500m", "48Mi")
		w.create(t, p)
		p = w.until(t, time.Minute, p.Name, ready)
		takeTooMuch(t, w, p)
		takeTooMuch(t, w, p) // in the same container
		if p = w.until(t, time.Minute, p.Name, ready); p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("the container ended with one of its processes: %s", statusText(p))
		}
		w.remove(t, p.Name, nil)
		w.untilGone(t, p.Name)
	}, map[string]any{"singleProcessOOMKill": true})(t, w)
}

// takeTooMuch runs a process in a pod's container that the kernel ends.
func takeTooMuch(t *testing.T, w *world, p *v1.Pod) {
	t.Helper()
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	out, err := w.Runtime.ExecSync(w.ctx,
		&cri.ExecSyncRequest{ContainerId: id, Cmd: []string{"/testapp", "hog", "200"}, Timeout: 60})
	if err == nil && out.ExitCode != 137 {
		t.Errorf("the process ended with %d: %s %s", out.ExitCode, out.Stdout, out.Stderr)
	}
}

package kubelet

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestSystemd runs the test of slices, and, with `make test-cgroup-v2`, the kubelet with its pods, on a machine whose
// first process is systemd, and whose runtime has systemd make its cgroups, as kubeadm sets it up.
func TestSystemd(t *testing.T) {
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		t.Skip("this machine has no systemd to start")
	}
	onKernel(t, true, map[string][]string{"kubelet/cgroup": {"TestSystemd"}}, "TestInSystemd")
}

// TestInSystemd is the part of TestSystemd that needs pods. The configuration names cgroupfs, and the runtime's answer
// counts.
func TestInSystemd(t *testing.T) {
	if os.Getenv(inside) == "" {
		t.Skip("TestSystemd runs it")
	}
	w := newWorld(t, setup{limit: 14 * time.Minute, systemd: true})
	w.run(t, "limits", testCgroupFiles)
	w.run(t, "read anew", testReload)
	w.run(t, "figures", testCgroupFigures)
	w.run(t, "out of memory", testOutOfMemory)
	w.run(t, "resize", testResize)
	w.nothingLeft(t)
}

// podsRoot is the cgroup in which that of all pods is, groupOfPods the folder of that of all pods.
func podsRoot(w *world) string {
	if w.systemd {
		return "/"
	}
	return w.CgroupRoot()
}

func groupOfPods(w *world) string {
	name := "kubepods"
	if w.systemd {
		name = "kubepods.slice"
	}
	return filepath.Join("/sys/fs/cgroup", podsRoot(w), name)
}

// sliceOf is the slice of a pod below that of its class.
func sliceOf(class string, p *v1.Pod) string {
	return class + "-pod" + strings.ReplaceAll(string(p.UID), "-", "_") + ".slice"
}

// shownUnits are properties of slices that come from what is asked of systemd. CPUQuotaPeriodUSec is not: upstream
// sets what is the default.
const shownUnits = "ActiveState,CPUAccounting,CPUQuotaPerSecUSec,CPUWeight,DefaultDependencies,IOAccounting,MemoryAccounting,MemoryMax,MemoryMin,MemoryLow,TasksAccounting,TasksMax,Transient,Wants"

// unitLines returns a line for each property of a slice.
func unitLines(t *testing.T, name, unit string) (out []string) {
	t.Helper()
	text, err := osexec.Command("systemctl", "show", unit, "-p", shownUnits).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, text)
	}
	for line := range strings.Lines(string(text)) {
		out = append(out, name+" "+line)
	}
	return out
}

// noSlices returns an error if a pod has a slice, or systemd knows of one.
func noSlices() (err error) {
	out, err := osexec.Command("systemctl", "list-units", "--all", "--plain", "--no-legend", "kubepods*pod*",
		"cri-containerd-*").CombinedOutput()
	if err != nil || len(out) > 0 {
		return fmt.Errorf("left units: %s %w", out, err)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/kubepods.slice/*-pod*", "/sys/fs/cgroup/kubepods.slice/*/*-pod*"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return fmt.Errorf("left cgroups: %v", found)
		}
	}
	return nil
}

// ofScopes are the settings of containers that runc writes without systemd's knowledge, which sets its own when it
// reads its units anew.
var ofScopes = regexp.MustCompile(`(?m)^.*/(container|sandbox).* memory\.oom\.group .*\n`)

// testReload: neither systemd, which reads its units anew, nor another kubelet changes a limit of what runs. The
// runtime's driver is used, and it is said that it is not the configuration's.
func testReload(t *testing.T, w *world) {
	pods := cgroupPods()
	names := map[string]string{}
	for _, p := range pods {
		w.create(t, p)
	}
	var ids []string
	for i, p := range pods {
		pods[i] = w.until(t, 4*time.Minute, p.Name, ready)
		names["pod"+string(pods[i].UID)] = "pod " + p.Name
		for _, c := range append(pods[i].Status.ContainerStatuses, pods[i].Status.InitContainerStatuses...) {
			_, id, _ := strings.Cut(c.ContainerID, "://")
			names[id] = "container " + c.Name
		}
		ids = append(ids, pods[i].Status.ContainerStatuses[0].ContainerID)
	}
	limits := func() string { return ofScopes.ReplaceAllString(cgroupFiles(t, w, names), "") }
	before := limits()
	info, err := os.Stat(filepath.Join(groupOfPods(w), sliceOf("kubepods", pods[0])))
	must(t, err)

	reload := func() {
		if out, err := osexec.Command("systemctl", "daemon-reload").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	reload()
	if now := limits(); now != before {
		t.Errorf("after systemd has read its units anew:\n%s\nbefore:\n%s", now, before)
	}
	w.kubelet.Stop()
	w.startKubelet()
	for i, p := range pods {
		if now := w.until(t, 2*time.Minute, p.Name, ready).Status.ContainerStatuses[0]; now.ContainerID != ids[i] ||
			now.RestartCount != 0 {
			t.Errorf("pod %s has another container after a restart of the kubelet", p.Name)
		}
	}
	reload()
	if now := limits(); now != before {
		t.Errorf("after a restart of the kubelet:\n%s\nbefore:\n%s", now, before)
	}
	if now, err := os.Stat(filepath.Join(groupOfPods(w), sliceOf("kubepods", pods[0]))); err != nil ||
		!os.SameFile(info, now) {
		t.Errorf("the pod's slice was made again: %v", err)
	}
	log, err := os.ReadFile(w.Path("kubelet-" + node + ".log"))
	must(t, err)
	if !strings.Contains(string(log),
		`"The runtime's cgroup driver is used, which is not the configuration's (cgroupDriver)" driver="systemd" configured="cgroupfs"`) {
		t.Error("nothing says that the configuration has another driver")
	}

	page := ask(t, w, "metrics/cadvisor")
	_, id, _ := strings.Cut(ids[0], "://")
	want := fmt.Sprintf(
		`container_memory_working_set_bytes{container="app",id="/kubepods.slice/%s/cri-containerd-%s.scope",image=%q,name="%[2]s",namespace=%[4]q,pod=%[5]q}`,
		sliceOf("kubepods", pods[0]), id, pods[0].Status.ContainerStatuses[0].Image, namespace, pods[0].Name)
	if !strings.Contains(page, want) {
		t.Errorf("nothing says %s", want)
	}
	for _, p := range pods {
		w.remove(t, p.Name, nil)
	}
	for _, p := range pods {
		w.untilGone(t, p.Name)
	}
	must(t, wait.For(w.ctx, 30*time.Second, "the slices to be gone", func(context.Context) error { return noSlices() }))
}

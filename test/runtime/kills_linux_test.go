package runtime

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// processes finds the programs of the host whose name or first argument has the text.
func (w containers) processes(t *testing.T, text string) (pids []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(t, err)
	home := []byte(filepath.Join(w.dir, "hosts", w.name))
	for _, file := range found {
		// a process may end meanwhile
		data, _ := os.ReadFile(file)
		// a shim is told where containerd.exe is
		line := bytes.Join(bytes.SplitN(data, []byte{0}, 3)[:min(2, bytes.Count(data, []byte{0}))], []byte{0})
		environment, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && bytes.Contains(line, []byte(text)) &&
			(bytes.Contains(environment, home) || bytes.Contains(data, home)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill ends the host's programs of that name without a warning, and waits for their end. The kernel's is that of all
// programs.
func (w containers) kill(t *testing.T, text string) {
	t.Helper()
	if text == kernelProgram {
		w.killKernel(t)
		return
	}
	pids := w.processes(t, text)
	if len(pids) == 0 {
		t.Fatalf("no %s runs", text)
	}
	for _, pid := range pids {
		check(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	wait.True(t, 20*time.Second, text+" has ended", func() bool {
		return !slices.ContainsFunc(w.processes(t, text), func(pid int) bool { return slices.Contains(pids, pid) })
	})
}

// answers waits until containerd answers again.
func (w containers) answers(t *testing.T) {
	t.Helper()
	wait.True(t, time.Minute, "containerd answers", func() bool {
		_, err := w.runtime.Version(call(t), &runtimeapi.VersionRequest{})
		return err == nil
	})
}

// The programs of a host that can be killed.
const (
	containerdProgram = `containerd\containerd.exe`
	shimProgram       = `containerd-shim-runhcs-v1.exe`
	hcsdProgram       = "host-hcsd"
	kernelProgram     = "wineserver" // the host's
)

// testKills kills each program while a pod runs. Afterwards the pod can be removed, no system, cgroup or shim of it is
// left, and the next pod runs.
func (w containers) testKills(t *testing.T) {
	for _, k := range []struct{ name, program string }{{"containerd.exe", containerdProgram}, {"shim", shimProgram},
		{"hcsd", hcsdProgram}} {
		t.Run(k.name, func(t *testing.T) {
			pod := "kill-" + strings.TrimSuffix(k.name, ".exe")
			w.write("var/log/pods/"+pod+"/.keep", "")
			p := w.runPod(t, pod)
			id := w.run(t, p, asked{name: "a"}, "serving HTTP")
			w.kill(t, k.program)
			w.answers(t)
			if k.name == "containerd.exe" { // with its shim, or with HCS, containerd loses the container
				wait.True(t, time.Minute, "the container goes on", func() bool {
					r, err := w.runtime.ExecSync(call(t),
						&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"cmd", "/c", "exit 3"}, Timeout: 20})
					return err == nil && r.ExitCode == 3
				})
			}
			w.endPod(t, p)
		})
	}
}

// testReboot kills the host's wineserver, which is its kernel, while a pod runs. No program of before is left, and
// once containerd answers again the pod's container has ended, the pod can be removed without a trace, and the next
// one runs.
func (w containers) testReboot(t *testing.T) {
	w.write("var/log/pods/reboot/.keep", "")
	p := w.runPod(t, "reboot")
	id := w.run(t, p, asked{name: "a"}, "serving HTTP")

	all, contained := w.killKernel(t)
	// of two containers; wineserver, services.exe, containerd.exe, a shim and the relay
	if contained < 3 || all < contained+5 {
		t.Errorf("only %d programs ran, %d of them in containers", all, contained)
	}
	w.answers(t)
	wait.True(t, time.Minute, "the container has ended", func() bool {
		s, err := w.runtime.ContainerStatus(call(t), &runtimeapi.ContainerStatusRequest{ContainerId: id})
		return err == nil && s.Status.State == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	w.endPod(t, p)
	w.testNothingLeft(t)

	p = w.runPod(t, "reboot")
	w.run(t, p, asked{name: "a"}, "serving HTTP")
	w.endPod(t, p)
}

// killKernel kills the host's wineserver, and waits until no program of before runs. Returns how many programs there
// were, and how many of them in containers.
func (w containers) killKernel(t *testing.T) (all, contained int) {
	t.Helper()
	home := filepath.Join(w.dir, "hosts", w.name)
	before, err := testkit.WineProcesses(home)
	check(t, err)
	for pid, program := range before {
		if program.Container {
			contained++
		}
		if program.Kernel && !program.Container {
			check(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	wait.NoError(t, 30*time.Second, "all programs of before have ended",
		func() error { return testkit.StillRunning(home, before) })
	return len(before), contained
}

// endPod removes a pod, as the kubelet does it until it succeeds, and finds nothing left of it.
func (w containers) endPod(t *testing.T, p pod) {
	t.Helper()
	var err error
	wait.True(t, 2*time.Minute, "the pod is removed", func() bool { err = w.removePod(p); return err == nil })
	wait.True(t, time.Minute, "nothing is left", func() bool { return w.left(t) == "" })
}

// left names the systems, cgroups, mounted layers and shims that there are of any container.
func (w containers) left(t *testing.T) string {
	t.Helper()
	var all []string
	for _, pattern := range []string{
		filepath.Join(w.dir, "hosts", w.name, "hcs", "systems", "*"),
		filepath.Join(w.dir, "hosts", w.name, "hcs", "runc", "*"),
		filepath.Join("/sys/fs/cgroup/*/porthole", w.name, "hcs", "*", "tasks"),
		filepath.Join("/sys/fs/cgroup/porthole", w.name, "hcs", "*", "cgroup.procs"),
	} {
		found, err := filepath.Glob(pattern)
		check(t, err)
		all = append(all, found...)
	}
	// containerd's garbage collection removes layers later
	mounts, err := platform.MountPointsBelow(filepath.Join(w.dir, "hosts", w.name, "hcs"))
	check(t, err)
	all = append(all, mounts...)
	for _, pid := range w.processes(t, shimProgram) {
		all = append(all, fmt.Sprint("shim ", pid))
	}
	return strings.Join(all, " ")
}

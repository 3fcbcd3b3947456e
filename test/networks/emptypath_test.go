package networks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestEmptyPath: programs of a Windows node start others by their full paths, and find what they need, without a PATH:
// containerd.exe, kubelet.exe, kube-proxy.exe and routes start again without one, and make a pod with its network.
// Row 1.52.
func TestEmptyPath(t *testing.T) {
	long(t)
	f := faultTest{pathCheck{up(t, "host-gateway").fleet()}}
	run := func(args ...string) string {
		t.Helper()
		out, err := command(6*shortly, porthole,
			append([]string{"host", "run", "--dir", dir, "win01", "--"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	run("reg", "add", `HKLM\System\CurrentControlSet\Control\Session Manager\Environment`, "/v", "PATH", "/t", "REG_SZ",
		"/d", "", "/f")
	if out := run("cmd", "/c", "set"); strings.Contains(strings.ToUpper(out), "\nPATH=") ||
		!strings.Contains(out, "PATHEXT=") {
		t.Fatalf("programs of win01 have a PATH:\n%s", out)
	}

	names := []string{"win01/containerd", "win01/kubelet", "win01/kube-proxy", "win01/routes"}
	old := f.pids(names...)
	for _, pid := range old {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	wait.NoError(t, time.Minute, "the programs to run again", func() error { return replaced(names, old) })
	wait.NoError(t, time.Minute, "the agents to be healthy", f.healthy)

	if _, err := kubectl("delete", "pod", "a-win01", "b-win01", "--grace-period=0", "--force"); err != nil {
		t.Fatal(err)
	}
	again := f.lab.fleet()
	again.reach("without a PATH", "win01")
	wait.NoError(t, 30*time.Second, "a pod of win01 to reach a service", func() error {
		return again.transfer("a-win01", again.services["lin01"]+":7000")
	})
}

// replaced returns an error unless all processes of these names run, and none of the old ones does.
func replaced(names []string, old []int) error {
	states, err := supervise.States(filepath.Join(dir, "run"))
	if err != nil {
		return err
	}
	running := 0
	for _, p := range states {
		if slices.Contains(names, p.Name) && p.PID != 0 && !slices.Contains(old, p.PID) {
			running++
		}
	}
	if running != len(names) {
		return fmt.Errorf("%d of %v run again", running, names)
	}
	return nil
}

package usage

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestPressureOfTheKernel: two programs that want the same processor wait for it, and the pressure of their cgroup
// says so. The kernel measures that for cgroups of version 2, also where version 1 has the controllers.
func TestPressureOfTheKernel(t *testing.T) {
	root := mountOfV2(t)
	dir, err := os.MkdirTemp(root, "porthole-pressure-")
	if err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	defer os.Remove(dir)
	if !exists(filepath.Join(dir, "cpu.pressure")) {
		t.Skip("this kernel measures no pressure")
	}

	for range 2 {
		defer loopIn(t, dir)()
	}
	r := at(root, "/proc", "/sys/dev/block")
	err = wait.For(t.Context(), 30*time.Second, "pressure on processors", func(context.Context) error {
		g, ok := r.One("/" + filepath.Base(dir))
		if !ok || g.Pressure == nil {
			return fmt.Errorf("there is none: %v", ok)
		}
		if some := g.Pressure.CPU.Some; some.Total == 0 || some.Avg10 == 0 || some.Avg10 > 100 {
			return fmt.Errorf("%+v", some)
		}
		if g.CPU.User == 0 || g.Tasks.Processes != 2 {
			return fmt.Errorf("%d processes took %d ns", g.Tasks.Processes, g.CPU.User)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// mountOfV2 returns where cgroups of version 2 are mounted. It skips the test if they are nowhere.
func mountOfV2(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1]
		}
	}
	t.Skip("no cgroups of version 2 are mounted")
	return ""
}

// loopIn runs a program in a cgroup, on the first processor that this process may use. It takes all the time that it
// can get until it is stopped.
func loopIn(t *testing.T, cgroup string) (stop func()) {
	t.Helper()
	dir, err := os.Open(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	var mine, first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		t.Fatal(err)
	}
	for i := 0; first.Count() == 0; i++ {
		if mine.IsSet(i) {
			first.Set(i)
		}
	}
	if err := unix.SchedSetaffinity(cmd.Process.Pid, &first); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

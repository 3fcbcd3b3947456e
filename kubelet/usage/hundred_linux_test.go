package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// spent is the processor time of this process.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestHundredPods: a round over the cgroups of 100 pods, each with a container and a sandbox, takes less than 250 ms
// of a processor, however busy the machine is otherwise.
func TestHundredPods(t *testing.T) {
	r := v1(t)
	r.slow = time.Minute
	for i := range 100 {
		for _, controller := range []string{"cpu", "cpuacct", "memory", "pids", "blkio"} {
			from, to := filepath.Join(r.cgroups, controller, box), filepath.Join(r.cgroups, controller, pods,
				fmt.Sprintf("podn%d", i))
			for _, part := range []string{"", "a", "b"} {
				if err := os.CopyFS(filepath.Join(to, part), os.DirFS(from)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}

	best := time.Hour
	for range 5 {
		began := spent(t)
		if got := len(r.Trees(t.Context(), pods, "/")); got != 306 {
			t.Fatalf("%d cgroups", got)
		}
		best = min(best, spent(t)-began)
	}
	t.Logf("%v", best)
	if best > 250*time.Millisecond {
		t.Errorf("it took %v", best)
	}
}

package kubelet

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
)

func TestBurstGarbage(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 8 << 20: 150, 12 << 20: 100, 20 << 20: 60,
		100 << 20: 50} {
		if got := burstGarbage(live); got != want {
			t.Errorf("%d MB live: %d %%, want %d %%", live>>20, got, want)
		}
	}
}

// TestCollectLessInBursts: a burst allows more garbage, and less of it as the heap grows; afterwards the limit is as
// before. A user who sets Go's own variables decides alone.
func TestCollectLessInBursts(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if collectLessInBursts(func(asked string) string { return map[string]string{name: "50"}[asked] }) != nil {
			t.Errorf("with %s set there is still something that changes it", name)
		}
	}
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}

	burst := collectLessInBursts(func(string) string { return "" })
	burst(true)
	if got := percent(); got <= 100 {
		t.Errorf("garbage is collected at %d %% in a burst of a small heap", got)
	}
	much := make([]byte, 64<<20)
	wait.NoError(t, 10*time.Second, "less garbage in a large heap", func() error {
		runtime.GC()
		if got := percent(); got != usualGarbage {
			return fmt.Errorf("%d %%", got)
		}
		return nil
	})
	runtime.KeepAlive(much)
	burst(false)
	runtime.GC()
	if got := percent(); got != usualGarbage {
		t.Errorf("after the burst garbage is collected at %d %%", got)
	}
}

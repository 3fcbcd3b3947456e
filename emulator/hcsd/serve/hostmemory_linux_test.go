package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestHostMemory: what the DLLs read of a host's memory, and that a process counts by what it has written to. Without
// a memory of its own the host has no such file.
func TestHostMemory(t *testing.T) {
	o := Options{Cgroup: "/porthole/test-memory", HostDir: t.TempDir(), Memory: 3 << 30}
	file := filepath.Join(o.host().DriveC(), memoryFile)
	check(t, os.MkdirAll(o.host().DriveC(), 0o755))
	read := func() (whole, committed uint64) {
		t.Helper()
		text, err := os.ReadFile(file)
		check(t, err)
		if n, err := fmt.Sscanf(string(text), "%020d %020d\n", &whole, &committed); n != 2 || err != nil ||
			len(text) != 42 {
			t.Fatalf("%q: %v", text, err)
		}
		return whole, committed
	}

	const block = 64 << 20
	before := anonymous("/proc/self/status")
	held := make([]byte, block)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	if now := anonymous("/proc/self/status"); now < before+block*3/4 {
		t.Errorf("%d bytes after %d were written to, before %d", now, len(held), before)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	check(t, o.keepMemory(ctx))
	whole, first := read()
	if whole != 3<<30 || first < block {
		t.Errorf("%d bytes, of which %d are committed", whole, first)
	}
	check(t, os.Truncate(file, 0))
	wait.True(t, 10*memoryEvery, "it is written again",
		func() bool { st, err := os.Stat(file); return err == nil && st.Size() > 0 })
	cancel()

	o.Memory = 0
	check(t, o.keepMemory(t.Context()))
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a host without a memory of its own: %v", err)
	}
}

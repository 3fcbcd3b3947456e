package platform

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestRemoveCgroup: a cgroup goes with all below it, and the one above it when it was the last there.
func TestRemoveCgroup(t *testing.T) {
	above := fmt.Sprintf("/porthole-test-%d", os.Getpid())
	mounted := Cgroups("/cgroup.procs")
	if len(mounted) == 0 {
		t.Skip("no cgroups are mounted")
	}
	for _, file := range mounted {
		for _, name := range []string{"a/b/c", "d"} {
			if err := os.MkdirAll(filepath.Join(filepath.Dir(file), above, name), 0o755); err != nil {
				t.Skipf("no cgroup can be made: %v", err)
			}
		}
	}

	if got := len(Cgroups(above + "/a/b/c")); got != len(mounted) {
		t.Errorf("%d cgroups in %d hierarchies", got, len(mounted))
	}
	for _, step := range []struct {
		remove string
		left   int // how many hierarchies have the cgroup above
	}{{"/a", len(mounted)}, {"/none", len(mounted)}, {"/d", 0}} {
		if err := RemoveCgroup(t.Context(), above+step.remove); err != nil {
			t.Error(err)
		}
		if gone, left := len(Cgroups(above+step.remove)), len(Cgroups(above)); gone != 0 || left != step.left {
			t.Errorf("after %s: %d of it, %d above it, want 0 and %d", step.remove, gone, left, step.left)
		}
	}
}

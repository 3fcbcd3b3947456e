package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestNoController sets what no controller has, in each cgroup hierarchy that is mounted.
func TestNoController(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: others may write no file of a cgroup")
	}
	bases, err := hierarchies()
	if err != nil {
		t.Skip(err)
	}
	for _, base := range bases {
		if err := write(filepath.Join(base, "porthole.none"), "1"); !errors.Is(err, errNoController) {
			t.Errorf("%s: %v, want %v", base, err, errNoController)
		}
	}
}

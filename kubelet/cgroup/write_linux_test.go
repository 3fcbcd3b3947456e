package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// TestHierarchies: folders and links of systemd without a hierarchy of their own are left out.
func TestHierarchies(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"cpu,cpuacct", "memory", "hugetlb"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if name == "hugetlb" {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, name, "cgroup.procs"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("cpu,cpuacct", filepath.Join(root, "cpu")); err != nil {
		t.Fatal(err)
	}

	got, err := hierarchiesIn(root)
	want := []string{filepath.Join(root, "cpu,cpuacct"), filepath.Join(root, "memory")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

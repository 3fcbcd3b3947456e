package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/host"
)

// TestDownKeepsHosts: a host of `porthole host create` outlives the cluster beside it, with its mounts.
func TestDownKeepsHosts(t *testing.T) {
	l := layout.Layout{Dir: t.TempDir()}
	s := host.Store{Dir: l.Dir}
	for _, h := range []host.Host{{Name: "h1", Standalone: true}, {Name: "win01"}} {
		if err := s.Describe(h); err != nil {
			t.Fatal(err)
		}
		prefix := filepath.Join(l.Host(h.Name), "prefix")
		if err := os.Mkdir(prefix, 0o755); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := unix.Mount("tmpfs", prefix, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(prefix, unix.MNT_DETACH) }) // win01's is gone by then
		}
	}

	keep, err := keptHosts(l)
	if err != nil || len(keep) != 1 || keep[0] != "h1" {
		t.Fatalf("kept hosts: %v, %v", keep, err)
	}
	if err := errors.Join(unmountBelow(l, keep), removeState(l, keep, false)); err != nil {
		t.Fatal(err)
	}

	list, err := s.List()
	if err != nil || len(list) != 1 || list[0].Name != "h1" {
		t.Errorf("hosts afterwards: %v, %v", list, err)
	}

	all, err := mountsBelow(l, nil)
	if err != nil || os.Geteuid() == 0 && len(all) != 1 {
		t.Errorf("mounts afterwards: %v, %v", all, err)
	}
}

// TestProcessesOf: a process of another PID namespace, which a file cgroup.procs has as 0, is left alone.
func TestProcessesOf(t *testing.T) {
	if got := processesOf("12\n0\n345\n"); !slices.Equal(got, []int{12, 345}) {
		t.Errorf("processes %v", got)
	}
}

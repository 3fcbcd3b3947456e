package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestHugePages: the cgroup of a pod has the huge pages that the pod asks for, and none of other sizes. The test
// mounts a hierarchy of its own, in a mount namespace that ends with its thread, because many systems have none.
func TestHugePages(t *testing.T) {
	was := hasHugeHierarchy(t)

	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			t.Log("needs root: ", err)
			return
		}
		base := t.TempDir()
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Mount("none", base, "cgroup", 0, "hugetlb"); err != nil {
			t.Log("this system does not let the test mount cgroups of huge pages: ", err)
			return
		}

		checkHugePages(t, base)
		if err := unix.Unmount(base, 0); err != nil {
			t.Error(err)
		}
		if !was {
			removeHierarchy(t, base)
		}
	}()
	<-done
}

// removeHierarchy takes the hierarchy of huge pages away. The kernel keeps one that is unmounted while a cgroup of it
// is still being removed, and every process then has a cgroup in it: containerd 2.3 cannot read the CPU time of
// containers any more, because nothing of it is mounted.
func removeHierarchy(t *testing.T, base string) {
	err := wait.For(t.Context(), 30*time.Second, "the hierarchy of huge pages to go", func(context.Context) error {
		if !hasHugeHierarchy(t) {
			return nil
		}
		if err := unix.Mount("none", base, "cgroup", 0, "hugetlb"); err != nil {
			return err
		}
		if err := unix.Unmount(base, 0); err != nil {
			return err
		}
		return errors.New("it is still there")
	})
	if err != nil {
		t.Error(err)
	}
}

// hasHugeHierarchy reports whether there is a hierarchy of huge pages of version 1, mounted or not.
func hasHugeHierarchy(t *testing.T) bool {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Error(err)
	}
	return strings.Contains(string(text), ":hugetlb:")
}

func checkHugePages(t *testing.T, base string) {
	dir := filepath.Join(base, "porthole-test")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Error(err)
		return
	}
	defer func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}()
	limit := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, "hugetlb."+name+".limit_in_bytes"))
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(string(text))
	}

	before := limit("2MB")
	if err := limitHuge(dir, ".limit_in_bytes", nil); err != nil || limit("2MB") != before || before == "0" {
		t.Errorf("a cgroup that is not a pod's: %s, %v", limit("2MB"), err)
	}
	if err := limitHuge(dir, ".limit_in_bytes", map[string]int64{"2MB": 6 << 20}); err != nil {
		t.Error(err)
	}
	if limit("2MB") != "6291456" || limit("2MB.rsvd") != "6291456" {
		t.Errorf("2 MB: %s, reserved %s", limit("2MB"), limit("2MB.rsvd"))
	}

	// Older processors have no pages of 1 GB (flag pdpe1gb of /proc/cpuinfo).
	if _, err := os.Stat("/sys/kernel/mm/hugepages/hugepages-1048576kB"); err != nil {
		t.Log("this processor has one size of huge pages alone")
	} else if got := limit("1GB"); got != "0" {
		t.Errorf("1 GB: %s", got)
	}
}

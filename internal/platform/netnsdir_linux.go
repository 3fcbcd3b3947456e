package platform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A named network namespace is a mount in NetnsDir, and many programs put such mounts there. iproute2 (ip/ipnetns.c,
// netns_add) and the CNI project's libraries first make the folder a shared mount, by mounting it on itself if need
// be. That mount would cover namespaces which were mounted before: their names cannot be used, and not removed
// ("device or resource busy"). So CreateNetns makes the folder a shared mount as well, before the first namespace, and
// DeleteNetns removes a name even if somebody covered it.

// withNetnsDir runs change while holding the lock that `ip netns add` takes too. Without NetnsDir it returns
// os.ErrNotExist.
func withNetnsDir(change func() error) error {
	dir, err := os.Open(NetnsDir)
	if err != nil {
		return err
	}
	defer dir.Close() // releases the lock

	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("locking %s: %w", NetnsDir, err)
	}
	return change()
}

// shareNetnsDir makes NetnsDir a shared mount point. What is mounted inside stays visible.
func shareNetnsDir() error {
	share := func() error { return unix.Mount("", NetnsDir, "none", unix.MS_SHARED|unix.MS_REC, "") }
	err := share()
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// It is not a mount point yet.
	if err := unix.Mount(NetnsDir, NetnsDir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return share()
}

// unmountEmptyNetnsDir undoes shareNetnsDir when no namespace has a name any more. A folder that is in use stays as it
// is: nothing depends on this.
func unmountEmptyNetnsDir() {
	entries, err := os.ReadDir(NetnsDir)
	if err != nil || len(entries) > 0 {
		return
	}

	var dir, parent unix.Stat_t
	if unix.Stat(NetnsDir, &dir) != nil || unix.Stat(filepath.Dir(NetnsDir), &parent) != nil || dir.Dev != parent.Dev {
		return // a file system of its own, which somebody else mounted
	}
	_ = unix.Unmount(NetnsDir, unix.UMOUNT_NOFOLLOW)
}

// removeCovered removes the file of a namespace that is mounted beneath another mount. The kernel refuses to remove a
// file on which something is mounted in the caller's mount namespace, covered or not; in those of others it takes the
// mounts away with the file (Linux 3.18 and later, fs/namespace.c: __detach_mounts). So a thread gets a mount
// namespace of its own, clears the view in there, and removes the file.
func removeCovered(path string) error {
	errs := make(chan error, 1)
	go func() {
		// and never unlocked: the thread ends with the goroutine, and its mount namespace with it
		runtime.LockOSThread()
		errs <- uncoverAndRemove(path)
	}()
	return <-errs
}

// uncoverAndRemove works in a mount namespace that only the calling thread has. All mounts are made private first, so
// that what it unmounts stays mounted for everybody else.
func uncoverAndRemove(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "none", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("making all mounts private: %w", err)
	}

	for {
		for unix.Unmount(path, unix.MNT_DETACH) == nil {
		}
		err := os.Remove(path)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		if unix.Unmount(NetnsDir, unix.MNT_DETACH) != nil {
			return err // nothing covers it any more
		}
	}
}

// netnsMountedAt lists the network namespaces that are mounted at path, those beneath other mounts included, each as
// the kernel writes it: "net:[4026532178]".
func netnsMountedAt(path string) ([]string, error) {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}

	var found []string
	for line := range strings.Lines(string(table)) {
		// proc_pid_mountinfo(5): the fourth field is what is mounted, the fifth where.
		f := strings.Fields(line)
		if len(f) > 4 && octal.Replace(f[4]) == path && strings.HasPrefix(f[3], "net:[") &&
			!slices.Contains(found, f[3]) {
			found = append(found, f[3])
		}
	}
	return found, nil
}

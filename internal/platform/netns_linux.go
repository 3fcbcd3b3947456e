package platform

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// The kernel shows the namespace of a process's first thread as that of the process. Keeping that thread for the main
// goroutine means that no goroutine of InNetns ever takes it along into another namespace, where the process would then
// be counted, and killed, as one of a host's.
func init() { runtime.LockOSThread() }

// NetnsDir is where iproute2 and the CNI world keep named network namespaces.
const NetnsDir = "/var/run/netns"

// NetnsPath is the file of the network namespace called name.
func NetnsPath(name string) string { return filepath.Join(NetnsDir, name) }

// CreateNetns makes a network namespace called name with its loopback down, or does nothing if it is there already.
// The caller's own namespace does not change.
func CreateNetns(name string) error {
	if err := os.MkdirAll(NetnsDir, 0o755); err != nil {
		return fmt.Errorf("creating network namespace %s: %w", name, err)
	}
	err := withNetnsDir(func() error {
		if NetnsExists(name) {
			return nil
		}
		if err := shareNetnsDir(); err != nil {
			return fmt.Errorf("making %s a shared mount: %w", NetnsDir, err)
		}
		return bindNewNetns(NetnsPath(name))
	})
	if err != nil {
		return fmt.Errorf("creating network namespace %s: %w", name, err)
	}
	return nil
}

// bindNewNetns makes a network namespace and keeps it alive by a mount at path.
func bindNewNetns(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	f.Close()

	errs := make(chan error, 1)
	go func() {
		back, err := lockThread()
		if err != nil {
			errs <- err
			return
		}
		defer back()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			errs <- fmt.Errorf("unshare: %w", err)
			return
		}
		own := fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		if err := unix.Mount(own, path, "none", unix.MS_BIND, ""); err != nil {
			errs <- fmt.Errorf("keeping it at %s: %w", path, err)
			return
		}
		errs <- nil
	}()
	if err := <-errs; err != nil {
		os.Remove(path)
		return err
	}
	return nil
}

// DeleteNetns removes the name; the kernel ends the namespace with its last process. Absent is success. With the last
// name in NetnsDir the mount goes that CreateNetns, or `ip netns add`, made of the folder.
func DeleteNetns(name string) error {
	path := NetnsPath(name)
	err := withNetnsDir(func() error {
		if err := Detach(path); err != nil {
			return err
		}
		err := os.Remove(path)
		if errors.Is(err, unix.EBUSY) {
			err = removeCovered(path)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("deleting network namespace %s: %w", name, err)
	}
	unmountEmptyNetnsDir()
	return nil
}

// lockThread keeps the goroutine on its thread until back, which returns the thread to the namespace that it came
// from. A thread that cannot return ends with its goroutine. The process's first thread never ends: left behind in
// another namespace, it would make the whole process look (to NetnsPids, for example) as if it were in there.
func lockThread() (back func(), err error) {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("opening the network namespace of this thread: %w", err)
	}
	return func() {
		if enter(own) == nil {
			runtime.UnlockOSThread()
		}
		own.Close()
	}, nil
}

// enter moves the calling thread into a network namespace.
func enter(ns *os.File) error { return unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET) }

// NetnsExists reports whether a live namespace of that name can be entered. A left-over file without a namespace does
// not count, nor does a namespace that another mount covers.
func NetnsExists(name string) bool {
	var st unix.Statfs_t
	return unix.Statfs(NetnsPath(name), &st) == nil && st.Type == unix.NSFS_MAGIC
}

// InNetns runs f on a thread that is in the network namespace at path; "" means the caller's own. Sockets that f opens
// belong to that namespace for good. f must not start goroutines that rely on the namespace.
func InNetns(path string, f func() error) error {
	if path == "" {
		return f()
	}

	errs := make(chan error, 1)
	go func() {
		back, err := lockThread()
		if err != nil {
			errs <- err
			return
		}
		defer back()

		ns, err := os.Open(path)
		if err != nil {
			errs <- fmt.Errorf("opening a network namespace: %w", err)
			return
		}
		defer ns.Close()
		if err := enter(ns); err != nil {
			errs <- fmt.Errorf("entering network namespace %s: %w", path, err)
			return
		}
		errs <- f()
	}()

	return <-errs
}

// StartInNetns starts cmd inside the network namespace at path. Only the network differs: mounts stay the caller's, so
// (unlike with `ip netns exec`) what the child mounts is seen outside.
func StartInNetns(path string, cmd *exec.Cmd) error {
	return InNetns(path, cmd.Start)
}

// NetnsPids lists the processes whose network namespace is mounted at path, if only beneath another mount. Without
// such a namespace it returns nothing. Processes that end meanwhile are left out.
func NetnsPids(path string) ([]int, error) {
	namespaces, err := netnsMountedAt(path)
	if err != nil || len(namespaces) == 0 {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}

	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		own := filesOfProcess(pid, "ns/net", os.Readlink)
		if own != "" && slices.Contains(namespaces, own) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// ProcessEnviron is the environment that a process was started with, as /proc has it: each variable is ended by a
// zero. It is empty for a process that has ended.
func ProcessEnviron(pid int) string { return filesOfProcess(pid, "environ", readText) }

// ProcessMaps returns what a process has in memory, as proc_pid_maps(5) shows it, "" of one that has ended.
func ProcessMaps(pid int) string { return filesOfProcess(pid, "maps", readText) }

func readText(path string) (string, error) {
	data, err := os.ReadFile(path)
	return string(data), err
}

// filesOfProcess reads a file of a process in /proc, or that of one of its threads if the first thread has ended: such
// a process goes on, and its own files are empty. Wine makes some of a program that is killed in the middle of
// something. "" is the answer if the process has ended.
func filesOfProcess(pid int, name string, read func(string) (string, error)) string {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if text, err := read(filepath.Join(dir, name)); err == nil && text != "" {
		return text
	}
	threads, err := filepath.Glob(filepath.Join(dir, "task", "*", name))
	if err != nil {
		return ""
	}
	for _, file := range threads {
		if text, err := read(file); err == nil && text != "" {
			return text
		}
	}
	return ""
}

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"porthole.dev/porthole/internal/retry"
)

const mountPoint = "/sys/fs/cgroup"

// v1Controllers are the cgroup v1 controllers in whose hierarchies the pod's cgroup is made. The runtime makes it in
// the others.
var v1Controllers = []string{"cpu", "cpuacct", "cpuset", "hugetlb", "memory", "pids"}

// unified reports whether cgroup v2 has the controllers. A hybrid host counts as v1.
func unified() bool {
	_, err := os.Stat(filepath.Join(mountPoint, "cgroup.controllers"))
	return err == nil
}

// Version returns which version of cgroups has the controllers: 1 or 2.
func Version() int {
	if unified() {
		return 2
	}
	return 1
}

// ensure makes the cgroup at path and all above it, and sets the limits of the one at path. It may be repeated.
func ensure(path string, l limits) error {
	if unified() {
		return ensureV2(path, l)
	}
	return ensureV1(path, l)
}

// ensureV1 does ensure's work with cgroup v1, where each controller has a tree of its own. Controllers that the host
// does not have are left out. A limit of zero is not written, so that a repeated call takes no limit away; resize does
// that.
func ensureV1(path string, l limits) error {
	for _, c := range v1Controllers {
		base := filepath.Join(mountPoint, c)
		// there can be an empty folder where nothing is mounted
		if _, err := os.Stat(filepath.Join(base, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(base, path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating the cgroup %s: %w", dir, err)
		}
		if c == "cpuset" {
			if err := inheritCpuset(base, path); err != nil {
				return err
			}
		}
	}

	set := func(controller, file string, value int64) error {
		if value == 0 {
			return nil
		}
		return write(filepath.Join(mountPoint, controller, path, file), strconv.FormatInt(value, 10))
	}
	return errors.Join(set("cpu", "cpu.shares", l.shares), set("cpu", "cpu.cfs_period_us", l.period),
		set("cpu", "cpu.cfs_quota_us", l.quota),
		set("memory", "memory.limit_in_bytes", l.memory), set("pids", "pids.max", l.pids),
		limitHuge(filepath.Join(mountPoint, "hugetlb", path), ".limit_in_bytes", l.huge))
}

// ensureV2 does ensure's work with cgroup v2. A cgroup can use a controller only if every level above it passes the
// controller on, so each level is enabled before the next is made. The last is not: one that passes controllers on can
// have no processes of its own. The runtime enables that of a pod when it makes the first container's. As in ensureV1,
// a limit of zero is not written.
func ensureV2(path string, l limits) error {
	dir := mountPoint
	for _, part := range strings.Split(strings.Trim(path, "/"), "/") {
		enable(dir)
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("creating the cgroup %s: %w", dir, err)
		}
	}

	var errs []error
	if l.shares > 0 {
		errs = append(errs, write(filepath.Join(dir, "cpu.weight"), strconv.FormatInt(weight(l.shares), 10)))
	}
	if l.quota > 0 {
		errs = append(errs, write(filepath.Join(dir, "cpu.max"), fmt.Sprintf("%d %d", l.quota, l.per())))
	}
	if l.memory > 0 {
		errs = append(errs, write(filepath.Join(dir, "memory.max"), strconv.FormatInt(l.memory, 10)))
	}
	if l.pids > 0 {
		errs = append(errs, write(filepath.Join(dir, "pids.max"), strconv.FormatInt(l.pids, 10)))
	}
	return errors.Join(append(errs, limitHuge(dir, ".max", l.huge))...)
}

// v2Controllers are the controllers of cgroup v2 that pods use: the five that the runtime sets limits with, and io,
// whose statistics are read.
var v2Controllers = []string{"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}

// enable lets the cgroups below dir use those of v2Controllers that dir has: not every kernel has huge pages, and
// systemd delegates a part of the tree without cpuset. The kernel takes all controllers of a write or none, so that
// one which is missing must not be named. enable returns no error: where a controller could not be enabled, setting
// the limit that needs it fails.
func enable(dir string) {
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return
	}
	var add []string
	for c := range strings.FieldsSeq(string(has)) {
		if slices.Contains(v2Controllers, c) {
			add = append(add, "+"+c)
		}
	}
	_ = write(filepath.Join(dir, "cgroup.subtree_control"), strings.Join(add, " "))
}

// limitHuge limits huge pages of each size that the kernel knows, in use (hugetlb.2MB) and reserved by processes
// (hugetlb.2MB.rsvd). A nil map sets no limits.
func limitHuge(dir, suffix string, huge map[string]int64) error {
	if huge == nil {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "hugetlb.*"+suffix))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		size := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "hugetlb."), suffix),
			".rsvd")
		errs = append(errs, write(file, strconv.FormatInt(huge[size], 10)))
	}
	return errors.Join(errs...)
}

// inheritCpuset gives each new level of path the CPUs and memory nodes of the level above. The kernel lets no process
// join a cgroup without them (v1).
func inheritCpuset(base, path string) error {
	dir := base
	for _, part := range strings.Split(strings.Trim(path, "/"), "/") {
		parent := dir
		dir = filepath.Join(dir, part)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			have, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil && len(strings.TrimSpace(string(have))) > 0 {
				continue
			}
			value, err := os.ReadFile(filepath.Join(parent, file))
			if err != nil {
				return fmt.Errorf("reading the CPU set of %s: %w", parent, err)
			}
			if err := write(filepath.Join(dir, file), strings.TrimSpace(string(value))); err != nil {
				return err
			}
		}
	}
	return nil
}

// errNoController is what the kernel means by a refusal to make a file in a cgroup.
var errNoController = errors.New("there is no such file: the cgroup above it does not give it the controller")

func write(path, value string) error {
	err := os.WriteFile(path, []byte(value), 0o644)
	if errors.Is(err, os.ErrPermission) {
		if _, gone := os.Stat(path); errors.Is(gone, os.ErrNotExist) {
			err = errNoController
		}
	}
	if err != nil {
		return fmt.Errorf("setting %s to %s: %w", path, value, err)
	}
	return nil
}

// Remove removes the cgroup at path and those below it. The caller has stopped all containers in it. A process that
// still runs there is left over, for example from a container whose start was cut short, and is killed. It succeeds if
// there is no such cgroup, and fails if a process does not end: call it again later.
func Remove(path string) error {
	bases, err := hierarchies()
	errs := []error{err}
	for _, base := range bases {
		errs = append(errs, removeTree(filepath.Join(base, path)))
	}
	return errors.Join(errs...)
}

// hierarchies returns the folders of the trees of cgroups: one with version 2, one for each controller with version 1.
func hierarchies() (out []string, err error) {
	if unified() {
		return []string{mountPoint}, nil
	}
	return hierarchiesIn(mountPoint)
}

// hierarchiesIn returns those of version 1 that are mounted below a folder. systemd makes further folders and links
// there, for controllers that the kernel lacks or has mounted together.
func hierarchiesIn(folder string) (out []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("listing cgroup hierarchies: %w", err)
	}

	for _, e := range entries {
		dir := filepath.Join(folder, e.Name())
		_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listing cgroup hierarchies: %w", err)
		}
		if e.IsDir() && err == nil {
			out = append(out, dir)
		}
	}
	return out, nil
}

// present reports whether there is a cgroup at path, in any hierarchy.
func present(path string) bool {
	bases, _ := hierarchies()
	return slices.ContainsFunc(bases, func(base string) bool {
		_, err := os.Stat(filepath.Join(base, path))
		return err == nil
	})
}

// killBelow kills the processes in the cgroup at path and in all cgroups below it. It returns no error: removing a
// cgroup fails while a process is left.
func killBelow(path string) {
	bases, _ := hierarchies()
	for _, base := range bases {
		_ = filepath.WalkDir(filepath.Join(base, path), func(dir string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				killTasks(dir)
			}
			return nil
		})
	}
}

// removeTree removes dir and all cgroups below it, the lowest first, because the kernel removes none that has others
// in it. The kernel answers EBUSY while a process is in the cgroup, and for a moment after the last one has ended.
// removeTree therefore waits for the first attemptsBeforeKill failures, and kills what is there from then on.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the cgroup %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}

	for failures := 1; ; failures++ {
		err = syscall.Rmdir(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || failures == removeAttempts {
			return fmt.Errorf("removing the cgroup %s: %w", dir, err)
		}
		if failures > attemptsBeforeKill {
			killTasks(dir)
		}
		time.Sleep(removeBackoff.Wait(failures))
	}
}

// The kernel takes a moment to let go of processes that have ended. After attemptsBeforeKill (15 ms) those that are
// left are killed, after removeAttempts (127 ms) removing fails.
var removeBackoff = retry.Backoff{First: time.Millisecond}

const (
	attemptsBeforeKill = 4
	removeAttempts     = 8
)

// killTasks kills the processes of one cgroup. It returns no error: whether it worked shows when the cgroup is removed.
func killTasks(dir string) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for _, field := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

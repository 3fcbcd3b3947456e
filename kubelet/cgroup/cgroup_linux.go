package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const mountPoint = "/sys/fs/cgroup"

// v1 controllers whose hierarchies get the pod's folder; the runtime makes the others itself.
var v1Controllers = []string{"cpu", "cpuacct", "cpuset", "memory", "pids"}

// unified tells whether cgroup v2 has the controllers. A hybrid host counts as v1.
func unified() bool {
	_, err := os.Stat(filepath.Join(mountPoint, "cgroup.controllers"))
	return err == nil
}

// Ensure makes the cgroup at path (as PodPath gives it) and all above it, and sets its limits. It may be repeated.
func Ensure(path string, l Limits) error {
	if unified() {
		return ensureV2(path, l)
	}
	for _, c := range v1Controllers {
		base := filepath.Join(mountPoint, c)
		if _, err := os.Stat(base); err != nil {
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
	return errors.Join(set("cpu", "cpu.shares", l.Shares), set("cpu", "cpu.cfs_quota_us", l.Quota),
		set("memory", "memory.limit_in_bytes", l.Memory))
}

func ensureV2(path string, l Limits) error {
	dir := mountPoint
	for _, part := range strings.Split(strings.Trim(path, "/"), "/") {
		_ = write(filepath.Join(dir, "cgroup.subtree_control"), "+cpu +cpuset +memory +pids")
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("creating the cgroup %s: %w", dir, err)
		}
	}
	_ = write(filepath.Join(dir, "cgroup.subtree_control"), "+cpu +cpuset +memory +pids")
	var errs []error
	if l.Shares > 0 {
		errs = append(errs, write(filepath.Join(dir, "cpu.weight"), strconv.FormatInt(weight(l.Shares), 10)))
	}
	if l.Quota > 0 {
		errs = append(errs, write(filepath.Join(dir, "cpu.max"), fmt.Sprintf("%d 100000", l.Quota)))
	}
	if l.Memory > 0 {
		errs = append(errs, write(filepath.Join(dir, "memory.max"), strconv.FormatInt(l.Memory, 10)))
	}
	return errors.Join(errs...)
}

// inheritCpuset gives each new level the CPUs and memory nodes of the one above: without them no task may join.
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

func write(path, value string) error {
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("setting %s to %s: %w", path, value, err)
	}
	return nil
}

// Remove takes the cgroup away, with those below it. The caller has stopped all containers in it: what still runs there
// is a left-over, such as the waiting half of a container whose start was cut off, and is killed. Gone is success; a
// cgroup that is still busy is an error, to be tried again.
func Remove(path string) error {
	bases := []string{mountPoint}
	if !unified() {
		entries, err := os.ReadDir(mountPoint)
		if err != nil {
			return fmt.Errorf("listing cgroup hierarchies: %w", err)
		}
		bases = nil
		for _, e := range entries {
			bases = append(bases, filepath.Join(mountPoint, e.Name()))
		}
	}
	var errs []error
	for _, base := range bases {
		errs = append(errs, removeTree(filepath.Join(base, path)))
	}
	return errors.Join(errs...)
}

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
	for wait := time.Millisecond; ; wait *= 2 { // the kernel takes a moment to let go of tasks that have ended
		err = syscall.Rmdir(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || wait > 100*time.Millisecond {
			return fmt.Errorf("removing the cgroup %s: %w", dir, err)
		}
		if wait > 10*time.Millisecond {
			killTasks(dir)
		}
		time.Sleep(wait)
	}
}

// killTasks kills what is in one cgroup. One that has ended meanwhile is none of its concern; rmdir tells the rest.
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

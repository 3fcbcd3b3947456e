package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Join puts a process, this one for pid 0, into the cgroup at path, which it makes. With version 1 it does so for each
// controller that pods have limits or figures of.
func Join(path string, pid int) error {
	if err := ensure(path, limits{}); err != nil {
		return err
	}
	if unified() {
		return write(filepath.Join(mountPoint, path, "cgroup.procs"), strconv.Itoa(pid))
	}
	var errs []error
	for _, c := range append([]string{"blkio", "devices"}, v1Controllers...) {
		if _, err := os.Stat(filepath.Join(mountPoint, c, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(mountPoint, c, path)
		errs = append(errs, os.MkdirAll(dir, 0o755), write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)))
	}
	return errors.Join(errs...)
}

// Gather puts the processes that are in no cgroup into the one at path, which it makes: all but the first process,
// those of the kernel, and this one.
func Gather(path string) error {
	root := mountPoint
	if !unified() {
		// programs that limit processors or memory of others leave this one alone
		root = filepath.Join(mountPoint, "devices")
	}
	list, err := os.ReadFile(filepath.Join(root, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("listing the processes that are in no cgroup: %w", err)
	}

	var errs []error
	for _, text := range strings.Fields(string(list)) {
		pid, err := strconv.Atoi(text)
		if err != nil || pid <= 1 || pid == os.Getpid() || ofKernel(pid) {
			continue
		}
		if err := Join(path, pid); err != nil && !gone(pid) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ofKernel reports whether a process is a thread of the kernel: it has no program.
func ofKernel(pid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err != nil
}

func gone(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err != nil
}

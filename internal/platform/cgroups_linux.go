package platform

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/wakeup"
)

// cgroupEnd is how long RemoveCgroup waits for each cgroup: the kernel takes a process that was killed out of its
// cgroup a moment after its end.
const cgroupEnd = 5 * time.Second

// Cgroups returns the folders of a cgroup, one for each hierarchy that has it. path begins with a slash.
func Cgroups(path string) (dirs []string) {
	root := cgroupRoot
	if _, err := os.Stat(root + "/cgroup.controllers"); err != nil { // of version 2: the only hierarchy
		root += "/*"
	}
	dirs, _ = filepath.Glob(root + path)
	return dirs
}

// RemoveCgroup removes a cgroup with all cgroups below it from every hierarchy, and then its parent if nothing else is
// in that. The processes in it must have ended. A cgroup that does not exist is no error.
func RemoveCgroup(ctx context.Context, path string) error {
	var errs []error
	for _, dir := range Cgroups(path) {
		errs = append(errs, removeCgroups(ctx, dir))
		if filepath.Dir(path) != "/" {
			_ = unix.Rmdir(filepath.Dir(dir)) // refused while others are in it
		}
	}
	return errors.Join(errs...)
}

// removeCgroups removes the cgroups of one hierarchy, the lowest first: the kernel removes none that has others in it.
func removeCgroups(ctx context.Context, dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}

	for _, d := range slices.Backward(dirs) {
		limit := time.Now().Add(cgroupEnd)
		err := unix.Rmdir(d)
		for err != nil && !errors.Is(err, unix.ENOENT) {
			if time.Now().After(limit) || !wakeup.Pause(ctx, 50*time.Millisecond) {
				return fmt.Errorf("removing cgroup %s: %w", d, err)
			}
			err = unix.Rmdir(d)
		}
	}
	return nil
}

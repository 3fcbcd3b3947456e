//go:build !linux

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
)

// Modes and groups of the API have no meaning on this system.

// SetRootAccess does nothing.
func SetRootAccess(string, *int64) error { return nil }

// SetGroup does nothing.
func SetGroup(string, int64, *v1.PodFSGroupChangePolicy) error { return nil }

// IsMount returns false: this system has no mounts of ours.
func IsMount(string) (bool, error) { return false, nil }

// Unmount does nothing.
func Unmount(string) error { return nil }

// Published reports whether a driver has made a volume available at p: drivers on Windows put a link there, or a
// folder.
func Published(p string) (bool, error) {
	_, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// BindFolder makes the folder source available at p by a link, once: this system has no bind mounts.
func BindFolder(source, p string, _ bool) error {
	if have, err := os.Readlink(p); err == nil && have == source {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o750); err != nil {
		return fmt.Errorf("making volume folder: %w", err)
	}
	if err := RemoveEmpty(p); err != nil {
		return fmt.Errorf("replacing the link of a volume: %w", err)
	}
	if err := os.Symlink(source, p); err != nil {
		return fmt.Errorf("linking to %s: %w", source, err)
	}
	return nil
}

// LinkDevice fails: containers of this system get no raw devices.
func LinkDevice(string, string) error {
	return errors.New("raw devices are not supported on this system")
}

// MountMemory makes a plain folder: this system has no file system in memory.
func MountMemory(dir string, _ int64, _ os.FileMode, _ *int64) error {
	return os.MkdirAll(dir, 0o755)
}

// MountHuge fails.
func MountHuge(string, int64, *int64) error {
	return fmt.Errorf("huge pages are not supported on this system")
}

// RemoveTree removes a tree. A link or junction is removed itself, never followed: os.RemoveAll opens each folder from
// the one above it, so that nobody can put a link in its place. It succeeds if there is nothing at p.
func RemoveTree(p string) error {
	if err := RetryBusy(func() error { return os.RemoveAll(p) }); err != nil {
		return fmt.Errorf("removing %s: %w", p, err)
	}
	return nil
}

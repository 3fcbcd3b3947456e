//go:build !linux

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
)

// Modes and groups of the API have no meaning on this system.

func setAccess(*os.Root, content, access) error { return nil }

func setRootAccess(string, *int64) error { return nil }

func setGroup(string, int64, *v1.PodFSGroupChangePolicy) error { return nil }

func isMount(string) (bool, error) { return false, nil }

func unmount(string) error { return nil }

// published reports whether a driver has made a volume available at p: drivers on Windows put a link there, or a
// folder.
func published(p string) (bool, error) {
	_, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// bindFolder makes the folder source available at p by a link, once: this system has no bind mounts.
func bindFolder(source, p string, _ bool) error {
	if have, err := os.Readlink(p); err == nil && have == source {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o750); err != nil {
		return fmt.Errorf("making volume folder: %w", err)
	}
	if err := removeEmpty(p); err != nil {
		return fmt.Errorf("replacing the link of a volume: %w", err)
	}
	if err := os.Symlink(source, p); err != nil {
		return fmt.Errorf("linking to %s: %w", source, err)
	}
	return nil
}

func linkDevice(string, string) error {
	return errors.New("raw devices are not supported on this system")
}

// mountMemory makes a plain folder: this system has no file system in memory.
func mountMemory(dir string, _ int64, _ os.FileMode, _ *int64) error {
	return os.MkdirAll(dir, 0o755)
}

func mountHuge(string, int64, *int64) error {
	return fmt.Errorf("huge pages are not supported on this system")
}

// RemoveTree removes a tree. A link or junction is removed itself, never followed: os.RemoveAll opens each folder from
// the one above it, so that nobody can put a link in its place. It succeeds if there is nothing at p.
func RemoveTree(p string) error {
	if err := retryBusy(func() error { return os.RemoveAll(p) }); err != nil {
		return fmt.Errorf("removing %s: %w", p, err)
	}
	return nil
}

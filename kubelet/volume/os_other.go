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

// mountMemory makes a plain folder: this system has no file system in memory.
func mountMemory(dir string, _ int64, _ os.FileMode, _ *int64) error {
	return os.MkdirAll(dir, 0o755)
}

func mountHuge(string, int64, *int64) error {
	return fmt.Errorf("huge pages are not supported on this system")
}

// RemoveTree removes a tree. A link or junction is removed itself, never followed. It succeeds if there is nothing at
// p. os.RemoveAll of Go 1.26 is no alternative: under Wine 8 it fails with "Invalid function" (observed 2026-11).
func RemoveTree(p string) error {
	info, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", p, err)
	}
	if info.IsDir() && info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) == 0 {
		if err := emptyFolder(p); err != nil {
			return err
		}
	}

	err = retryBusy(func() error {
		err := os.Remove(p)
		if err != nil && info.Mode()&0o200 == 0 {
			_ = os.Chmod(p, 0o600) // the read-only attribute forbids removal
			err = os.Remove(p)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", p, err)
	}
	return nil
}

// emptyFolder removes what is in a folder. It holds the folder open meanwhile: if a container put a link in its place,
// another folder's content would be removed.
func emptyFolder(p string) error {
	held, link, err := holdFolder(p)
	if err != nil {
		return fmt.Errorf("opening %s to remove it: %w", p, err)
	}
	defer held.Close()
	if link {
		return nil
	}
	entries, err := os.ReadDir(p)
	if err != nil {
		return fmt.Errorf("listing %s: %w", p, err)
	}
	var failed []error
	for _, e := range entries {
		failed = append(failed, RemoveTree(filepath.Join(p, e.Name())))
	}
	return errors.Join(failed...)
}

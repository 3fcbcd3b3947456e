//go:build !linux

package volume

import (
	"fmt"
	"os"

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

// RemoveTree removes a tree. A link or junction is removed itself, never followed: os.RemoveAll opens each folder from the one
// above it, so that nobody can put a link in its place. It succeeds if there is nothing at p.
func RemoveTree(p string) error {
	if err := retryBusy(func() error { return os.RemoveAll(p) }); err != nil {
		return fmt.Errorf("removing %s: %w", p, err)
	}
	return nil
}

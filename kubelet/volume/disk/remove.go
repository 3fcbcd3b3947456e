package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// UnmountAll unmounts everything that is mounted at dir. Mounts may be stacked.
func UnmountAll(dir string) error {
	const most = 16 // more mounts on one folder than anybody makes
	for range most {
		mounted, err := IsMount(dir)
		if err != nil || !mounted {
			return err
		}
		if err := Unmount(dir); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: still mounted after %d attempts", dir, most)
}

// RemoveMounted calls leave for everything that is exactly depth levels below dir, and then removes dir. It does not
// remove dir if leave fails, or if something is mounted at another level.
func RemoveMounted(dir string, depth int, leave func(path string) error) error {
	if err := AtLevel(dir, depth, leave); err != nil {
		return err
	}
	return RemoveTree(dir)
}

// AtLevel calls visit with everything that is exactly depth levels below dir. One failure does not stop the others.
func AtLevel(dir string, depth int, visit func(path string) error) error {
	if depth == 0 {
		return visit(dir)
	}
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("listing %s: %w", dir, err)
	}

	var failed []error
	for _, e := range entries {
		if depth == 1 || e.IsDir() {
			failed = append(failed, AtLevel(filepath.Join(dir, e.Name()), depth-1, visit))
		}
	}
	return errors.Join(failed...)
}

// RemoveFolder removes an empty folder or a link.
func RemoveFolder(path string) error {
	if err := RetryBusy(func() error { return RemoveEmpty(path) }); err != nil {
		return fmt.Errorf("removing the place of a volume: %w", err)
	}
	return nil
}

// RemoveEmpty removes a file, link or empty folder. It succeeds if there is nothing.
func RemoveEmpty(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

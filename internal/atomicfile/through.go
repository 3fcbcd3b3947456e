package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteThrough is Write for files that must be whole after a power failure: certificates, keys and records of what was
// done. When it returns nil, the new content is on the disk under its name. A reader that holds the old file open does
// not prevent that on Unix; on Windows WriteThrough tries for a second, because programs written in Go open files so
// that they cannot be replaced.
func WriteThrough(path string, data []byte, perm os.FileMode) (err error) {
	temp := path + ".new"
	// of an earlier write, with permissions of its own
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Chmod(temp, perm) // the process's mask takes some off a new file
	}

	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := Replace(temp, path); err != nil {
		return errors.Join(fmt.Errorf("replacing %s: %w", path, err), os.Remove(temp))
	}
	return nil
}

// Replace renames a file or folder in the same folder, in place of the file that has the new name, and flushes the
// rename to the disk.
func Replace(from, to string) error {
	if err := replace(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}

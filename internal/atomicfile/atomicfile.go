// Package atomicfile replaces files in one step.
package atomicfile

import (
	"fmt"
	"os"
)

// Write replaces the file at path by one with the given content and permissions (Unix bits; Windows knows only whether
// a file is read-only). A reader, or a process that starts after a crash of this one, sees the old file or the new
// one. What is written first is path with ".new" at its end, which container runtimes do not take for a CNI
// configuration; it is replaced if an earlier write was cut short. The folder must exist. Two concurrent writes of one
// path are a mistake of the caller.
//
// The data is not flushed to the disk: after a power failure the file may be empty, and its readers must cope.
func Write(path string, data []byte, perm os.FileMode) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, data, perm); err != nil {
		return err
	}

	// An existing temporary file keeps its permissions, and the process's mask takes some off a new one.
	if err := os.Chmod(temp, perm); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("replacing %s: %w", path, err)
	}
	return nil
}

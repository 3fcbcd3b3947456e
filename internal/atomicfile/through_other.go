//go:build !windows

package atomicfile

import (
	"errors"
	"os"
)

func replace(from, to string) error { return os.Rename(from, to) }

// syncFolder flushes the names in a folder.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

package confine

import (
	"errors"
	"fmt"
	"os"

	"porthole.dev/porthole/emulator/wine"
)

// MakeFolder makes a folder of root's that the user of emulated hosts can pass through, whatever the umask is. One
// that is there becomes such.
func MakeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making folder %s: %w", dir, err)
	}
	return PassThrough(dir)
}

// PassThrough lets the user of emulated hosts open what it may below a folder of root's, but neither list nor change
// it. Others reach nothing there.
func PassThrough(dir string) error {
	return errors.Join(os.Lchown(dir, 0, wine.Owner), os.Chmod(dir, 0o710))
}

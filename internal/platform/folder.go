package platform

import (
	"fmt"
	"os"
)

// Permissions of folders with state (Unix bits; on Windows the folder's access list decides). A closed folder is for
// its owner only. One to pass through can be neither listed nor read by others, but they reach what lies below it and
// is open to them: the root of a pod with a user namespace of its own is nobody on the node, and comes to its files
// through such folders.
const (
	Closed      os.FileMode = 0o700
	PassThrough os.FileMode = 0o711
)

// MakeFolder makes a folder with exactly the permissions perm, whatever the process's umask is. A folder that is there
// gets them too. Missing folders above it are made with at most the same.
func MakeFolder(dir string, perm os.FileMode) error {
	err := os.MkdirAll(dir, perm)
	if err == nil {
		err = os.Chmod(dir, perm)
	}
	if err != nil {
		return fmt.Errorf("making folder %s: %w", dir, err)
	}
	return nil
}

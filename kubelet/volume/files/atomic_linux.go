package files

import (
	"fmt"
	"io/fs"
	"os"
)

// swapLink makes ..data point to target in one step.
func swapLink(root *os.Root, target string) error {
	const fresh = dataLink + "_tmp"
	if err := removeIn(root, fresh); err != nil {
		return err
	}
	if err := root.Symlink(target, fresh); err != nil {
		return err
	}
	return root.Rename(fresh, dataLink)
}

// setAccess sets the mode and owner of each file, and gives files and folders to the pod's group.
func setAccess(root *os.Root, want Content, acc Access) error {
	for p, f := range want {
		mode := os.FileMode(f.Mode & 0o777)
		// The group must be able to read what it is given.
		if acc.Group != nil {
			mode |= 0o440
		}

		uid, gid := 0, 0
		if f.UID != nil {
			uid = int(*f.UID)
		}
		if acc.Group != nil {
			gid = int(*acc.Group)
		}

		// A change of the owner is asked for only where one is needed.
		if uid != os.Geteuid() || gid != os.Getegid() {
			if err := root.Lchown(p, uid, gid); err != nil {
				return fmt.Errorf("giving volume file its owner: %w", err)
			}
		}
		if err := root.Chmod(p, mode); err != nil {
			return fmt.Errorf("giving volume file its mode: %w", err)
		}
	}

	if acc.Group == nil {
		return nil
	}
	// Folders keep their files in the group: the setgid bit is inherited.
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if err := root.Lchown(p, -1, int(*acc.Group)); err != nil {
			return fmt.Errorf("giving folder to the pod's group: %w", err)
		}
		info, err := root.Lstat(p)
		if err != nil {
			return err
		}
		return root.Chmod(p, info.Mode().Perm()|0o550|os.ModeSetgid)
	})
}

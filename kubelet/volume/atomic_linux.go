package volume

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
func setAccess(root *os.Root, want content, acc access) error {
	for p, f := range want {
		mode := os.FileMode(f.mode & 0o777)
		if acc.group != nil {
			mode |= 0o440
		}

		uid, gid := 0, 0
		if f.uid != nil {
			uid = int(*f.uid)
		}
		if acc.group != nil {
			gid = int(*acc.group)
		}

		if uid != os.Geteuid() || gid != os.Getegid() {
			if err := root.Lchown(p, uid, gid); err != nil {
				return fmt.Errorf("giving volume file its owner: %w", err)
			}
		}
		if err := root.Chmod(p, mode); err != nil {
			return fmt.Errorf("giving volume file its mode: %w", err)
		}
	}

	if acc.group == nil {
		return nil
	}
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if err := root.Lchown(p, -1, int(*acc.group)); err != nil {
			return fmt.Errorf("giving folder to the pod's group: %w", err)
		}
		info, err := root.Lstat(p)
		if err != nil {
			return err
		}
		return root.Chmod(p, info.Mode().Perm()|0o550|os.ModeSetgid)
	})
}

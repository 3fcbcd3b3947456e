package wine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// owner is the user that a prefix belongs to. Wine refuses to run as another one. A prefix that is not there belongs to root.
func (p Prefix) owner() uint32 {
	var st unix.Stat_t
	if unix.Stat(p.Dir, &st) != nil {
		return 0
	}
	return st.Uid
}

// asOwner makes a program run as the owner of the prefix, without any capability.
func (p Prefix) asOwner() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{}
	if owner := p.owner(); owner != uint32(os.Getuid()) {
		a.Credential = &syscall.Credential{Uid: owner, Gid: owner}
	}
	return a
}

// Own gives the files and folders below dir to Owner, and dir itself. It follows no links. What has been removed meanwhile is success.
func Own(dir string) error { return ownTree(dir, dir, Owner) }

// ownTree looks for what does not belong to the owner below dir, and changes it at the same place below at.
func ownTree(dir, at string, owner uint32) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid == owner && st.Gid == owner || info.Mode()&fs.ModeCharDevice != 0 { // whiteouts of an overlay are devices
			return nil
		}

		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		err = os.Lchown(filepath.Join(at, rel), int(owner), int(owner))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("giving %s to user %d: %w", at, owner, err)
	}
	return nil
}

// OwnChanges gives what root has written to the C: of a host to the user that the host's programs run as. The host's programs must not run.
func (m Mount) OwnChanges() error {
	owner := Prefix{Dir: m.Target}.owner()
	if owner == 0 {
		return nil
	}
	return ownTree(m.Upper, m.Target, owner)
}

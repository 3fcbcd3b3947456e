package wine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/beneath"
)

// owner is the user that a prefix belongs to. Wine refuses to run as another one. A prefix that is not there belongs
// to root.
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

// Own gives a file to Owner, or a folder and what is below it. It follows no links. What has been removed meanwhile is
// success.
func Own(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !st.IsDir():
		return os.Lchown(path, Owner, Owner)
	default:
		return ownTree(path, path, Owner)
	}
}

// ownTree looks for what does not belong to the owner below dir, and changes it at the same place below at: both are
// folders. What somebody moves or removes meanwhile is left to whoever does that.
func ownTree(dir, at string, owner uint32) error {
	root, err := os.OpenRoot(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()

	give := func(name string) error {
		if err := root.Lchown(name, int(owner), int(owner)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}

	err = beneath.Walk(context.Background(), dir, func(f *beneath.Entry) (bool, error) {
		whiteout := f.Mode&unix.S_IFMT == unix.S_IFCHR // of the overlay: a device
		if f.Uid == owner && f.Gid == owner || whiteout {
			return true, nil
		}
		return true, give(f.Path())
	})
	if err == nil || errors.Is(err, beneath.ErrLost) {
		err = give(".")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("giving %s to user %d: %w", at, owner, err)
	}
	return nil
}

// OwnChanges gives what root has written to the C: of a host to the user that the host's programs run as. The host's
// programs must not run.
func (m Mount) OwnChanges() error {
	owner := Prefix{Dir: m.Target}.owner()
	if owner == 0 {
		return nil
	}
	return ownTree(m.Upper, m.Target, owner)
}

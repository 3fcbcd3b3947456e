package beneath

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a removal.
const (
	removeDepth  = 32               // folders below each other that are open at the same time
	removeNames  = 256              // names that are read at once
	removeTries  = 8                // listings of a folder that does not become empty
	removeErrors = 8                // failures that are told; more are counted
	removeLimit  = 10 * time.Minute // of one removal; the next one goes on where it ended
	shownPath    = 512              // bytes of a path in an error; what is in its middle is left out
)

// remover removes one tree that others may change meanwhile. It looks up names in open folders only and follows no
// links, so that nobody leads it outside. It removes nothing through a mount.
//
// A tree may be of any depth. What is deeper than removeDepth is renamed into the top folder, and is removed from
// there:
//
//	top/1/2/…/32/33/34/…        top/.porthole-removed-X/34/…
//
// So neither open files nor memory grow with the depth.
type remover struct {
	limit time.Duration // removeLimit if it is zero

	until  time.Time
	shown  string   // the path of top
	names  []string // of the folders that are open, from top down
	top    int
	moved  int // folders that were renamed into top
	failed []error
	more   int // failures that are not in failed
}

// RemoveAll removes what is at path, as os.RemoveAll does, for trees that others may change and make as deep and wide
// as they like. It fails if a file system is mounted in the tree (EBUSY), and removes the rest then. It fails if
// something is put into the tree all the time. The folders above path are trusted.
func RemoveAll(path string) error { return new(remover).run(path) }

// RemoveIn is RemoveAll for what is called name below an open folder. Links on the way are followed as far as they stay
// below.
func RemoveIn(root *os.Root, name string) error {
	shown := filepath.Join(root.Name(), name)
	if !removable(name) {
		return &fs.PathError{Op: "remove", Path: shown, Err: fs.ErrInvalid}
	}
	parent, err := root.OpenFile(filepath.Dir(name), os.O_RDONLY|unix.O_DIRECTORY|NoWait, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return new(remover).in(int(parent.Fd()), filepath.Base(name), shown)
}

// removable reports whether the last element of a path is a name in a folder.
func removable(path string) bool {
	base := filepath.Base(path)
	return path != "" && base != "." && base != ".." && base != "/"
}

func (r *remover) run(path string) error {
	if !removable(path) {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrInvalid}
	}
	path = filepath.Clean(path)
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", filepath.Dir(path), err)
	}
	defer unix.Close(parent)
	return r.in(parent, filepath.Base(path), path)
}

// in removes what is called name in an open folder. shown is its path.
func (r *remover) in(parent int, name, shown string) error {
	if r.limit == 0 {
		r.limit = removeLimit
	}
	r.until = time.Now().Add(r.limit)
	r.shown = shown
	r.top = -1
	r.remove(parent, name)
	if r.more > 0 {
		r.failed = append(r.failed, fmt.Errorf("and %d more failures below %s", r.more, shown))
	}
	return errors.Join(r.failed...)
}

// remove removes one thing and what is in it. It returns false if it could not, and has recorded why.
func (r *remover) remove(parent int, name string) bool {
	err := unix.Unlinkat(parent, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return true
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EBUSY) {
		return r.fail("removing", name, err)
	}
	if len(r.names) > removeDepth {
		return r.moveUp(parent, name)
	}

	dir, openErr := openFolderAt(parent, name)
	switch {
	case errors.Is(openErr, unix.ENOENT):
		return true
	case errors.Is(openErr, unix.ENOTDIR), errors.Is(openErr, unix.ELOOP): // no folder
		return r.fail("removing", name, err)
	case openErr != nil:
		return r.fail("opening", name, openErr)
	}
	defer dir.Close()
	if isMountRoot(dir) {
		return r.fail("not removed, it is a mount:", name, unix.EBUSY)
	}
	if len(r.names) == 0 {
		r.top = int(dir.Fd())
	}
	return r.folder(parent, dir, name)
}

// folder removes an open folder that is called name in parent. While something is put into it, it tries again for some
// times. What was moved into the top folder from deep below is no such thing.
func (r *remover) folder(parent int, dir *os.File, name string) bool {
	for try := 0; try < removeTries; try++ {
		before := r.moved
		if !r.empty(dir, name) {
			return false
		}
		err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		switch {
		case err == nil, errors.Is(err, unix.ENOENT):
			return true
		case !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST):
			return r.fail("removing", name, err)
		}

		if len(r.names) == 0 && r.moved > before {
			try = -1
		}
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return r.fail("listing", name, err)
		}
	}
	return r.fail("something is put all the time into", name, unix.ENOTEMPTY)
}

// empty removes what is in an open folder. One failure does not keep the rest from being removed.
func (r *remover) empty(dir *os.File, name string) bool {
	r.names = append(r.names, name)
	defer func() { r.names = r.names[:len(r.names)-1] }()
	fd, ok := int(dir.Fd()), true
	for {
		names, err := dir.Readdirnames(removeNames)
		for _, n := range names {
			if time.Now().After(r.until) {
				return r.fail(fmt.Sprintf("not done after %v:", r.limit), n, os.ErrDeadlineExceeded)
			}
			ok = r.remove(fd, n) && ok
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, unix.ENOENT): // the second if it was removed meanwhile
			return ok
		case err != nil:
			return r.fail("listing", "", err)
		}
	}
}

// moveUp removes an empty folder, or makes another one a folder of top under a name that is not taken.
func (r *remover) moveUp(parent int, name string) bool {
	err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		err = unix.Renameat(parent, name, r.top, ".porthole-removed-"+rand.Text())
		if err == nil {
			r.moved++
		}
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return true
	case errors.Is(err, unix.EBUSY):
		return r.fail("not removed, it is a mount:", name, err)
	}
	return r.fail("removing", name, err)
}

// isMountRoot reports whether something is mounted at an open folder. Kernels before 5.8 do not say: then it reports
// false.
func isMountRoot(dir *os.File) bool {
	var st unix.Statx_t
	err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// fail adds an error about a file or folder to those that the caller of the removal gets. It returns false, as what
// could not be removed does.
func (r *remover) fail(doing, name string, err error) bool {
	if len(r.failed) == removeErrors {
		r.more++
		return false
	}
	path := r.shown
	if len(r.names) > 0 {
		path = filepath.Join(append([]string{r.shown}, append(r.names[1:len(r.names):len(r.names)], name)...)...)
	}
	if len(path) > shownPath+len(r.shown) {
		path = path[:len(r.shown)+shownPath/2] + "…" + path[len(path)-shownPath/2:]
	}
	r.failed = append(r.failed, fmt.Errorf("%s %s: %w", doing, path, err))
	return false
}

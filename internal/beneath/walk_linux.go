package beneath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Bounds of a walk: folders that are open at the same time, and names that are read at once.
const (
	maxOpenFolders = 64
	namesAtOnce    = 1024
)

// ErrLost says that a folder was moved while the walk was below it.
var ErrLost = errors.New("a folder was moved meanwhile")

// Entry is one thing in a tree: its name in the open folder, a descriptor that the walk closes, and what it is. It is
// valid until the visit ends.
type Entry struct {
	Folder int
	Name   string
	unix.Stat_t
	walk *walker
}

// IsDir reports whether it is a folder, and not a link to one.
func (f *Entry) IsDir() bool { return f.Mode&unix.S_IFMT == unix.S_IFDIR }

// Path is where the walk met the entry, below the folder that it began in. Something else may be there by now.
func (f *Entry) Path() string {
	var names []string
	for _, l := range f.walk.levels[1:] {
		names = append(names, l.name)
	}
	return filepath.Join(append(names, f.Name)...)
}

// walker visits everything below a folder, each folder before what is in it. It looks up names in open folders only and
// follows no links, so that a container can change the tree meanwhile and leads it nowhere. A tree may be of any depth:
// folders far above are closed, and opened again from below.
type walker struct {
	// visit is called for each thing, and says whether to enter it if it is a folder. What it returns as an error ends
	// the walk.
	visit func(*Entry) (enter bool, err error)

	levels []level
	lost   bool // something was not visited
}

// level is a folder on the way from the top.
type level struct {
	name     string
	file     *os.File // nil while it is closed
	dev, ino uint64
	below    []string // folders in it that are still to be visited
}

// Walk visits everything below the folder dir, which it does not visit itself. The error is the visitor's, or says why
// the walk is not complete.
func Walk(ctx context.Context, dir string, visit func(*Entry) (enter bool, err error)) error {
	top, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return WalkFrom(ctx, top, visit)
}

// WalkFrom is Walk from an open folder, which it closes.
func WalkFrom(ctx context.Context, top *os.File, visit func(*Entry) (enter bool, err error)) error {
	w := &walker{visit: visit}
	defer w.closeAll()
	if err := w.enter(ctx, top); err != nil {
		return err
	}

	for len(w.levels) > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("not everything was visited: %w", err)
		}
		here := &w.levels[len(w.levels)-1]
		if len(here.below) == 0 {
			w.leave()
			continue
		}
		name := here.below[len(here.below)-1]
		here.below = here.below[:len(here.below)-1]
		next, err := openFolderAt(int(here.file.Fd()), name)
		if err != nil { // it went away meanwhile, or is no folder any more
			w.lost = w.lost || !errors.Is(err, fs.ErrNotExist)
			continue
		}
		if err := w.enter(ctx, next); err != nil {
			return err
		}
	}
	if w.lost {
		return ErrLost
	}
	return nil
}

// openFolderAt opens a folder that is in another one, and not the target of a link.
func openFolderAt(parent int, name string) (*os.File, error) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC,
		0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// enter visits what is in an open folder, and makes it the lowest level.
func (w *walker) enter(ctx context.Context, folder *os.File) error {
	fd := int(folder.Fd())
	var here unix.Stat_t
	if err := unix.Fstat(fd, &here); err != nil {
		folder.Close()
		return err
	}
	w.levels = append(w.levels, level{name: folder.Name(), file: folder, dev: here.Dev, ino: here.Ino})
	if above := len(w.levels) - 1 - maxOpenFolders; above >= 0 {
		w.levels[above].file.Close()
		w.levels[above].file = nil
	}

	for {
		names, err := folder.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := w.one(fd, name); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			w.lost = true
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("not everything was visited: %w", ctx.Err())
		}
	}
}

// one visits one thing of the lowest folder.
func (w *walker) one(folder int, name string) error {
	f := Entry{Folder: folder, Name: name, walk: w}
	if unix.Fstatat(folder, name, &f.Stat_t, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil // it went away meanwhile
	}
	enter, err := w.visit(&f)
	if err == nil && enter && f.IsDir() {
		low := &w.levels[len(w.levels)-1]
		low.below = append(low.below, name)
	}
	return err
}

// leave goes up one level. If the folder above was closed, it is the one that the lowest folder is in, unless that was
// moved.
func (w *walker) leave() {
	last := len(w.levels) - 1
	low := w.levels[last].file
	defer low.Close()
	w.levels = w.levels[:last]
	if last == 0 || w.levels[last-1].file != nil {
		return
	}

	above := &w.levels[last-1]
	f, err := openFolderAt(int(low.Fd()), "..")
	var st unix.Stat_t
	if err == nil && unix.Fstat(int(f.Fd()), &st) == nil && st.Dev == above.dev && st.Ino == above.ino {
		above.file = f
		return
	}
	if err == nil {
		f.Close()
	}
	w.lost = true
	w.closeAll()
}

func (w *walker) closeAll() {
	for _, l := range w.levels {
		if l.file != nil {
			l.file.Close()
		}
	}
	w.levels = nil
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Bounds of a walk: folders that are open at the same time, and names that are read at once.
const (
	maxOpenFolders = 64
	namesAtOnce    = 1024
)

// errLost says that a folder was moved while the walk was below it.
var errLost = errors.New("a folder was moved meanwhile")

// entry is one thing in a tree: its name in the open folder, and what it is.
type entry struct {
	folder int
	name   string
	unix.Stat_t
}

func (f *entry) isDir() bool { return f.Mode&unix.S_IFMT == unix.S_IFDIR }

// walker visits everything below a folder, each folder before what is in it. It looks up names in open folders only and follows no links, so that a
// container can change the tree meanwhile and leads it nowhere. A tree may be of any depth: folders far above are closed, and opened again from below.
type walker struct {
	// visit is called for each thing, and says whether to enter it if it is a folder. What it returns as an error ends the walk.
	visit func(*entry) (enter bool, err error)

	levels []level
	lost   bool // something was not visited
}

// level is a folder on the way from the top.
type level struct {
	file     *os.File // nil while it is closed
	dev, ino uint64
	below    []string // folders in it that are still to be visited
}

// walk visits everything below the folder dir, which it does not visit itself. The error is the visitor's, or says why the walk is not complete.
func walk(ctx context.Context, dir string, visit func(*entry) (enter bool, err error)) error {
	top, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return walkFrom(ctx, top, visit)
}

// walkFrom is walk from an open folder, which it closes.
func walkFrom(ctx context.Context, top *os.File, visit func(*entry) (enter bool, err error)) error {
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
		return errLost
	}
	return nil
}

// openFolderAt opens a folder that is in another one, and not the target of a link.
func openFolderAt(parent int, name string) (*os.File, error) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
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
	w.levels = append(w.levels, level{file: folder, dev: here.Dev, ino: here.Ino})
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
	f := entry{folder: folder, name: name}
	if unix.Fstatat(folder, name, &f.Stat_t, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil // it went away meanwhile
	}
	enter, err := w.visit(&f)
	if err == nil && enter && f.isDir() {
		low := &w.levels[len(w.levels)-1]
		low.below = append(low.below, name)
	}
	return err
}

// leave goes up one level. If the folder above was closed, it is the one that the lowest folder is in, unless that was moved.
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

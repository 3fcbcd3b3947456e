// Package beneath opens files in folders that a program may change which is not to be trusted, such as a container. It
// follows no links, on Linux and on Windows, and waits for nothing: a named pipe or a device in the place of a file is
// an error.
//
// Each element of a path is looked at first and then opened from the open folder above it. It counts only if what was
// opened is what was looked at. So a link that takes an element's place meanwhile is never followed to an end.
package beneath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrKind is the error about something that is not of the kind that was asked for: a link, a named pipe, a device, a
// folder in place of a file.
var ErrKind = errors.New("it is a link or of another kind")

// Folder opens the folder below root that the elements lead to, each the name of a folder in the one before. root
// itself may be a link. The caller closes what it gets.
func Folder(root string, elements ...string) (*os.Root, error) {
	at, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	for _, name := range elements {
		next, err := folderIn(at, name)
		at.Close()
		if err != nil {
			return nil, fmt.Errorf("opening folder %q below %s: %w", name, root, err)
		}
		at = next
	}
	return at, nil
}

// File opens a regular file for reading: the last element, in the folder that root and the other elements lead to.
func File(root string, elements ...string) (*os.File, error) {
	last := len(elements) - 1
	if last < 0 {
		return nil, fmt.Errorf("opening a file of %s: %w", root, ErrKind)
	}
	folder, err := Folder(root, elements[:last]...)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	f, err := FileIn(folder, elements[last], os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("opening file %q below %s: %w", elements[last], root, err)
	}
	return f, nil
}

// FileIn opens a regular file that is in an open folder, with flags of os.OpenFile. It makes no file.
func FileIn(folder *os.Root, name string, flags int) (*os.File, error) {
	if !plain(name) {
		return nil, fs.ErrInvalid
	}
	seen, err := folder.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.Mode().IsRegular() {
		return nil, ErrKind
	}
	f, err := folder.OpenFile(name, flags&^(os.O_CREATE|os.O_TRUNC)|NoWait, 0)
	if err != nil {
		return nil, err
	}
	if opened, err := f.Stat(); err != nil || !os.SameFile(seen, opened) {
		f.Close()
		return nil, errors.Join(err, ErrKind)
	}
	return f, nil
}

func folderIn(parent *os.Root, name string) (*os.Root, error) {
	if !plain(name) {
		return nil, fs.ErrInvalid
	}
	seen, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, ErrKind
	}
	// With the dot a named pipe that takes the folder's place is an error. Without it the open would wait for a writer.
	next, err := parent.OpenRoot(name + "/.")
	if err != nil {
		return nil, err
	}
	if opened, err := next.Stat("."); err != nil || !os.SameFile(seen, opened) {
		next.Close()
		return nil, errors.Join(err, ErrKind)
	}
	return next, nil
}

// plain reports whether a name is that of one element.
func plain(name string) bool {
	return name != "." && filepath.IsLocal(name) && !strings.ContainsAny(name, `/\`)
}

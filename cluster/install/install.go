// Package install puts files and programs where the nodes of a local cluster see them. On the C: of an emulated host
// they stay on it, whatever the host's programs have put on the way.
package install

import (
	"errors"
	"os"
	"path/filepath"

	"porthole.dev/porthole/emulator/wine"
)

// File writes a file and makes its folder.
func File(path string, data []byte, mode os.FileMode) error {
	if p, name, ok := wine.InPrefix(path); ok {
		return p.WriteFile(name, data, mode)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}

// Copy writes a file with the content of another, and makes its folder.
func Copy(from, to string, mode os.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return File(to, data, mode)
}

// Program copies a program with its time; a file of the same size and time is left alone. A running program keeps
// using the old file, which it has mapped.
func Program(from, to string) error {
	if p, name, ok := wine.InPrefix(to); ok {
		return p.Install(from, name)
	}
	src, err := os.Stat(from)
	if err != nil {
		return err
	}
	if dst, err := os.Stat(to); err == nil && dst.Size() == src.Size() && dst.ModTime().Equal(src.ModTime()) {
		return nil
	}
	if err := Copy(from, to+".new", 0o755); err != nil {
		return err
	}
	if err := os.Chtimes(to+".new", src.ModTime(), src.ModTime()); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// Link makes the path to a hard link to the file from, in place of a file that is there. A file with the size and time
// of from counts as that link: below an overlay mount the two have different inode numbers.
func Link(from, to string) error {
	if p, name, ok := wine.InPrefix(to); ok {
		_, old, _ := wine.InPrefix(from)
		return p.Link(old, name)
	}
	src, err := os.Stat(from)
	if err != nil {
		return err
	}
	if dst, err := os.Stat(to); err == nil && dst.Size() == src.Size() && dst.ModTime().Equal(src.ModTime()) {
		return nil
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Link(from, to)
}

package wine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/beneath"
)

// What lies in a prefix can be changed by its programs, also while it is read: they may put links there that lead to
// files of this machine, pipes that nobody writes to, or files without end. These functions stay in the prefix, and
// touch nothing but files.

// maxGuestFile bounds what is read of a file in a prefix: a registry has some megabytes.
const maxGuestFile = 64 << 20

var errNoFile = errors.New("it is not a file")

// ReadFile reads a file of the prefix, whose path is counted from the prefix's folder, with slashes.
func (p Prefix) ReadFile(name string) ([]byte, error) {
	f, err := p.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := []byte(nil)
	if st.Size() <= maxGuestFile {
		data, err = io.ReadAll(io.LimitReader(f, maxGuestFile+1))
	}
	if err == nil && (st.Size() > maxGuestFile || len(data) > maxGuestFile) {
		return nil, fmt.Errorf("reading %s: it has more than %d bytes", name, maxGuestFile)
	}
	return data, err
}

// Open opens a file of the prefix for reading. It waits for nobody, and fails for what is no regular file.
func (p Prefix) Open(name string) (*os.File, error) { return p.open(name, os.O_RDONLY) }

// open opens a file of the prefix that is there.
func (p Prefix) open(name string, flag int) (*os.File, error) {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, flag|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNoFile}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// AppendFile adds text to a file of the prefix that is there.
func (p Prefix) AppendFile(name, text string) error {
	f, err := p.open(name, os.O_APPEND|os.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// WriteFile puts a file into the prefix, in the place of what has its name. Its folder is made if it is not there.
func (p Prefix) WriteFile(name string, data []byte, perm fs.FileMode) error {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	temp := name + ".new"
	if err := beneath.RemoveIn(root, temp); err != nil {
		return err
	}
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(perm), f.Close()); err != nil {
		return err
	}
	return root.Rename(temp, name)
}

// MkdirAll makes a folder of the prefix.
func (p Prefix) MkdirAll(name string) error {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.MkdirAll(name, 0o755)
}

// Install copies a program of this machine with its time to the prefix. One of the same size and time is left alone. A
// running program keeps using the old file, which it has mapped.
func (p Prefix) Install(from, name string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if have, err := root.Lstat(name); err == nil && have.Mode().IsRegular() && have.Size() == st.Size() &&
		have.ModTime().Equal(st.ModTime()) {
		return nil
	}

	temp := name + ".new"
	if err := errors.Join(root.MkdirAll(path.Dir(name), 0o755), beneath.RemoveIn(root, temp)); err != nil {
		return err
	}
	to, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, src)
	if err := errors.Join(err, to.Chmod(0o755), to.Close()); err != nil {
		return err
	}
	return errors.Join(root.Chtimes(temp, st.ModTime(), st.ModTime()), root.Rename(temp, name))
}

// Link gives a file of the prefix another name, in the place of what has it.
func (p Prefix) Link(from, name string) error {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	one, err := root.Lstat(from)
	if err != nil {
		return err
	}
	if two, err := root.Lstat(name); err == nil && os.SameFile(one, two) {
		return nil
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.Link(from, name)
}

// InPrefix splits a path of this machine that is one below C: of a host. ok is false for others.
func InPrefix(file string) (p Prefix, name string, ok bool) {
	const mark = "/prefix/drive_c/"
	before, after, ok := strings.Cut(file, mark)
	return Prefix{Dir: before + "/prefix"}, "drive_c/" + after, ok
}

package wine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// What lies in a prefix can be changed by its programs, also while it is read: they may put links there that lead to files of this machine, pipes
// that nobody writes to, or files without end. These functions stay in the prefix, and touch nothing but files.

// maxGuestFile bounds what is read of a file in a prefix: a registry has some megabytes.
const maxGuestFile = 64 << 20

var errNoFile = errors.New("it is not a file")

// ReadFile reads a file of the prefix, whose path is counted from the prefix's folder, with slashes.
func (p Prefix) ReadFile(name string) ([]byte, error) {
	f, err := p.open(name, os.O_RDONLY)
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
	if err := root.RemoveAll(temp); err != nil {
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

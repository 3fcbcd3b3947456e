package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// unixSockets sends bytes over a socket that is a file. A second listener cannot have the file, and without it nobody
// is reached.
func unixSockets() error {
	dir, err := os.MkdirTemp("", "unix")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "a.sock")
	// Without a listener the connection must be refused at once.
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return errors.New("somebody answers where nobody listens")
	}

	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	defer l.Close()
	if got := l.Addr().String(); got != path {
		return fmt.Errorf("the listener is at %q", got)
	}
	if l, err := net.Listen("unix", path); err == nil {
		l.Close()
		return errors.New("two listen at one path")
	}
	if err := isSocket(dir, path); err != nil {
		return err
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()

	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer c.Close()
	if got := c.RemoteAddr().String(); got != path {
		return fmt.Errorf("the other end is at %q", got)
	}
	text := make([]byte, 5)
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, text); err != nil || string(text) != "hello" {
		return fmt.Errorf("%q, %v", text, err)
	}
	return abandonedSocket(dir)
}

// isSocket: whoever looks at the file sees that it is one of a socket.
func isSocket(dir, path string) error {
	followed, err := os.Stat(path)
	if err != nil {
		return err
	}
	itself, err := os.Lstat(path)
	if err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(list) != 1 || list[0].Type() != fs.ModeSocket || followed.Mode().Type() != fs.ModeSocket ||
		itself.Mode().Type() != fs.ModeSocket || itself.Size() != 0 {
		return fmt.Errorf("the socket is %v, %v with %d bytes, and listed as %v", followed.Mode(), itself.Mode(),
			itself.Size(), list)
	}
	if to, err := os.Readlink(path); err == nil {
		return fmt.Errorf("the socket is a link to %q", to)
	}
	return nil
}

// abandonedSocket: the file of a program that was killed stays, until somebody removes or renames it, and nobody
// answers there.
func abandonedSocket(dir string) error {
	path := filepath.Join(dir, "b.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return errors.New("somebody answers where nobody listens any more")
	}

	if l, err := net.Listen("unix", path); err == nil {
		l.Close()
		return errors.New("somebody listens where a file is left")
	}

	if err := os.Rename(path, path+".old"); err != nil {
		return err
	}
	if err := os.RemoveAll(path + ".old"); err != nil {
		return err
	}
	again, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	return again.Close()
}

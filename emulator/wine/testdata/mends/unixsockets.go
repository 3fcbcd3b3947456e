package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

// unixSockets sends bytes over a socket that is a file. A second listener cannot have the file, and without it nobody is reached.
func unixSockets() error {
	dir, err := os.MkdirTemp("", "unix")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "a.sock")
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
	return nil
}

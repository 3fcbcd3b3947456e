//go:build !linux

package storagedriver

import (
	"errors"
	"io/fs"
	"os"
)

// publishFolder makes a link to a folder, as drivers on Windows do.
func publishFolder(source, target string, _ []string, _ bool) error {
	if have, err := os.Readlink(target); err == nil && have == source {
		return nil
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(source, target)
}

var errNoDevices = errors.New("this system has no raw devices")

func publishBlock(string, string) error { return errNoDevices }

func growBlock(string, int64) error { return errNoDevices }

func copyBlock(string, string) error { return errNoDevices }

func dropBlock(file string) error { return os.RemoveAll(file) }

// setOwner does nothing: what is in a folder belongs to whom its folder says.
func setOwner(string, fs.FileInfo) error { return nil }

// withdraw undoes publishFolder.
func withdraw(target string) error {
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// WriteGuest makes a file on the C: of an emulated host, at a path below it with slashes, for the host's programs: the
// file and the folders on the way belong to the user of C: itself.
func WriteGuest(driveC, name string, data []byte, perm os.FileMode) error {
	file := filepath.Join(driveC, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, perm)); err != nil {
		return err
	}
	return OwnGuest(driveC, name)
}

// OwnGuest gives a file on the C: of an emulated host, and the folders on the way to it, to the user of C: itself.
func OwnGuest(driveC, name string) error {
	info, err := os.Stat(driveC)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	at := driveC
	for _, element := range strings.Split(filepath.ToSlash(name), "/") {
		at = filepath.Join(at, element)
		if err := os.Lchown(at, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	return nil
}

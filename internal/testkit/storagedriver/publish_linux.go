package storagedriver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func mounted(p string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, p, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// mountFlags are the mount options that a bound folder can have for itself.
var mountFlags = map[string]uintptr{
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
	"nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC, "nosuid": unix.MS_NOSUID,
}

// publishFolder binds a folder to target, once.
func publishFolder(source, target string, options []string, readOnly bool) error {
	var flags uintptr
	for _, option := range options {
		flag, known := mountFlags[option]
		if !known {
			return fmt.Errorf("mount option %q is not one of a bound folder", option)
		}
		flags |= flag
	}
	if readOnly {
		flags |= unix.MS_RDONLY
	}

	if mounted(target) {
		return nil
	}
	if err := os.Mkdir(target, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding %s: %w", source, err)
	}
	if flags == 0 {
		return nil
	}
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|flags, "")
}

// setOwner gives a file the owner and the group of another.
func setOwner(path string, as fs.FileInfo) error {
	st, ok := as.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %s is not known", as.Name())
	}
	return os.Lchown(path, int(st.Uid), int(st.Gid))
}

// withdraw undoes publishFolder and publishBlock.
func withdraw(target string) error {
	for mounted(target) {
		if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err != nil {
			return err
		}
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

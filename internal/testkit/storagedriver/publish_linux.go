package storagedriver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func mounted(p string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, p, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// publishFolder binds a folder to target, once.
func publishFolder(source, target string, readOnly bool) error {
	if mounted(target) {
		return nil
	}
	if err := os.Mkdir(target, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding %s: %w", source, err)
	}
	if !readOnly {
		return nil
	}
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// publishBlock makes a file available as a raw device at target, once.
func publishBlock(file, target string) error {
	if mounted(target) {
		return nil
	}
	device, err := loopOf(file)
	if err != nil {
		return err
	}
	if device == "" {
		out, err := exec.Command("losetup", "--show", "-f", file).CombinedOutput()
		if err != nil {
			return fmt.Errorf("losetup: %w: %s", err, out)
		}
		device = strings.TrimSpace(string(out))
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	f.Close()
	return unix.Mount(device, target, "", unix.MS_BIND, "")
}

// loopOf returns the loop device of a file, empty if it has none. The kernel says which file a loop device has.
func loopOf(file string) (string, error) {
	all, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return "", err
	}
	for _, path := range all {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == file {
			return "/dev/" + strings.Split(path, "/")[3], nil
		}
	}
	return "", nil
}

// growBlock makes a file of a raw device as large as it should be, and tells the kernel.
func growBlock(file string, size int64) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() >= size {
		return nil
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	device, err := loopOf(file)
	if err != nil || device == "" {
		return err
	}
	return exec.Command("losetup", "-c", device).Run()
}

func dropBlock(file string) error {
	device, err := loopOf(file)
	if err != nil {
		return err
	}
	if device != "" {
		if out, err := exec.Command("losetup", "-d", device).CombinedOutput(); err != nil {
			return fmt.Errorf("losetup -d: %w: %s", err, out)
		}
	}
	return os.RemoveAll(file)
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

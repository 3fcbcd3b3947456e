package storagedriver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// publishBlock makes a file available as a raw device at target, once.
func publishBlock(file, target string) error {
	if mounted(target) {
		return nil
	}
	device, err := loopOf(file)
	if err == nil && device == "" {
		device, err = newLoop(file)
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	f.Close()
	return unix.Mount(device, target, "", unix.MS_BIND, "")
}

// newLoop gives a file a loop device. Somebody else may take the free one that the kernel names: then it names another.
func newLoop(file string) (device string, err error) {
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer control.Close()

	const tries = 20
	for range tries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", fmt.Errorf("asking for a free loop device: %w", err)
		}
		device = fmt.Sprintf("/dev/loop%d", n)
		err = withDevice(device, func(fd int) error {
			return unix.IoctlLoopConfigure(fd, &unix.LoopConfig{Fd: uint32(backing.Fd())})
		})
		if !errors.Is(err, unix.EBUSY) {
			return device, err
		}
	}
	return "", fmt.Errorf("no loop device for %s: others took each of %d", file, tries)
}

// loopOf returns the loop device of a file, empty if it has none. The kernel says of a loop device which file it has
// by number, so that it does not matter in which mount namespace the file was opened, and by which name.
func loopOf(file string) (string, error) {
	var want unix.Stat_t
	if err := unix.Stat(file, &want); err != nil {
		return "", err
	}
	all, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return "", err
	}
	slices.Sort(all)
	for _, path := range all {
		device := "/dev/" + filepath.Base(filepath.Dir(path))
		found := false
		err := withDevice(device, func(fd int) error {
			info, err := unix.IoctlLoopGetStatus64(fd)
			found = err == nil && info.Device == want.Dev && info.Inode == want.Ino
			return nil // one that has just lost its file is not ours
		})
		if found {
			return device, err
		}
	}
	return "", nil
}

func withDevice(device string, do func(fd int) error) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(int(f.Fd()))
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
	return withDevice(device, func(fd int) error { return unix.IoctlSetInt(fd, unix.LOOP_SET_CAPACITY, 0) })
}

// copyBlock copies the file of a raw device. It is read through its loop device, if it has one: what was written there
// may not have come to the file yet.
func copyBlock(from, to string) error {
	device, err := loopOf(from)
	if err != nil {
		return err
	}
	if device != "" {
		from = device
	}
	return copyFile(from, to)
}

// dropBlock removes the file of a raw device, and its loop device.
func dropBlock(file string) error {
	device, err := loopOf(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && device != "" {
		err = withDevice(device, func(fd int) error { return unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0) })
	}
	if err != nil {
		return err
	}
	return os.Remove(file)
}

package storagedriver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// mounted reports whether a mount begins at the path.
func mounted(p string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, p, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// mountAttributes are the mount options that a bind mount can have independently of the file system that it shows, by
// name.
var mountAttributes = map[string]uint64{
	"noatime": unix.MOUNT_ATTR_NOATIME, "nodiratime": unix.MOUNT_ATTR_NODIRATIME, "relatime": unix.MOUNT_ATTR_RELATIME,
	"nodev": unix.MOUNT_ATTR_NODEV, "noexec": unix.MOUNT_ATTR_NOEXEC, "nosuid": unix.MOUNT_ATTR_NOSUID,
}

// publishFolder binds a folder to target, once.
func publishFolder(source, target string, options []string, readOnly bool) error {
	attributes := unix.MountAttr{}
	for _, option := range options {
		one, known := mountAttributes[option]
		if !known {
			return fmt.Errorf("mount option %q is not one of a bound folder", option)
		}
		attributes.Attr_set |= one
	}
	if attributes.Attr_set&unix.MOUNT_ATTR__ATIME != 0 {
		attributes.Attr_clr = unix.MOUNT_ATTR__ATIME // else the kernel refuses to set one of them
	}
	if readOnly {
		attributes.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}

	if mounted(target) {
		return nil
	}
	if err := os.Mkdir(target, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := bind(source, target, &attributes); err != nil {
		return fmt.Errorf("binding %s: %w", source, err)
	}
	return nil
}

// bind makes a bind mount. It sets the attributes before it attaches the mount: the mount then reaches the node by
// propagation from the driver's pod, and a later change of its attributes would not.
func bind(source, target string, attributes *unix.MountAttr) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, attributes); err != nil {
		return fmt.Errorf("setting mount options: %w", err)
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// setOwner sets the user and group of a file to those in as, which describes the file it was copied from.
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

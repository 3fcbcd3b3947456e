package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/platform"
)

// OnWindows says whether this program is one for Windows.
const OnWindows = false

// NoFollow is a flag of os.OpenFile: a link is refused, and a named pipe is not waited for.
const NoFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

// IsBusy reports whether another program holds the file. That keeps nobody out on this system.
func IsBusy(error) bool { return false }

// IsMount reports whether a file system is mounted at p itself. Linux 5.8 and newer answer directly; on older ones the
// table of mounts is read.
func IsMount(p string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, p, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether %s is a mount: %w", p, err)
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		all, err := platform.MountPoints()
		return slices.Contains(all, p), err
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// Published reports whether a driver has made a volume available at p: something is mounted there.
func Published(p string) (bool, error) { return IsMount(p) }

// BindFolder makes the folder source available at p, once.
func BindFolder(source, p string, readOnly bool) error {
	if mounted, err := IsMount(p); err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(p, 0o750); err != nil {
		return fmt.Errorf("making volume folder: %w", err)
	}
	if err := unix.Mount(source, p, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("binding %s: %w", source, err)
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", p, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("making %s read-only: %w", source, err), Unmount(p))
	}
	return nil
}

// LinkDevice makes a link to the place of a raw device.
func LinkDevice(target, link string) error {
	if have, err := os.Readlink(link); err == nil && have == target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o750); err != nil {
		return fmt.Errorf("making the folder of devices: %w", err)
	}
	if err := RemoveEmpty(link); err != nil {
		return fmt.Errorf("replacing the link to a device: %w", err)
	}
	if err := os.Symlink(target, link); err != nil {
		return fmt.Errorf("linking to a device: %w", err)
	}
	return nil
}

// MountMemory mounts a tmpfs at dir unless something is mounted there. size is in bytes; 0 leaves the kernel's default,
// half of the memory.
func MountMemory(dir string, size int64, mode os.FileMode, group *int64) error {
	if mounted, err := IsMount(dir); err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making volume folder: %w", err)
	}

	bits := uint64(mode.Perm())
	if mode&os.ModeSticky != 0 {
		bits |= unix.S_ISVTX
	}
	options := "mode=" + strconv.FormatUint(bits, 8)
	if group != nil {
		options = fmt.Sprintf("mode=%o,gid=%d", bits|unix.S_ISGID, *group)
	}
	if size > 0 {
		options += ",size=" + strconv.FormatInt(size, 10)
	}

	err := unix.Mount("tmpfs", dir, "tmpfs", 0, options+",noswap")
	if errors.Is(err, unix.EINVAL) { // before Linux 6.4
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, options)
	}
	if err != nil {
		return fmt.Errorf("mounting tmpfs at %s: %w", dir, err)
	}
	return nil
}

// MountHuge mounts a hugetlbfs at dir unless something is mounted there. page is the size of a page in bytes.
func MountHuge(dir string, page int64, group *int64) error {
	if mounted, err := IsMount(dir); err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making volume folder: %w", err)
	}
	options := fmt.Sprintf("mode=777,pagesize=%d", page)
	if group != nil {
		options = fmt.Sprintf("mode=2777,gid=%d,pagesize=%d", *group, page)
	}
	if err := unix.Mount("hugetlbfs", dir, "hugetlbfs", 0, options); err != nil {
		return fmt.Errorf("mounting huge pages at %s: %w", dir, err)
	}
	return nil
}

// Unmount unmounts what is at p. If it is in use, it disappears from p at once, and for good once it is not.
func Unmount(p string) error {
	err := unix.Unmount(p, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(p, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmounting %s: %w", p, err)
	}
	return nil
}

// RemoveTree removes a tree of any depth. It follows no links, and fails if a file system is mounted in the tree. It
// succeeds if there is nothing at p.
func RemoveTree(p string) error {
	mounted, err := IsMount(p)
	if err != nil {
		return err
	}
	if mounted {
		return fmt.Errorf("%s is a mount: not removed", p)
	}

	return beneath.RemoveAll(p)
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/platform"
)

const onWindows = false

const noFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK // of os.OpenFile; a named pipe is not waited for

func isBusy(error) bool { return false }

// swapLink makes ..data point to target in one step.
func swapLink(root *os.Root, target string) error {
	const fresh = dataLink + "_tmp"
	if err := removeIn(root, fresh); err != nil {
		return err
	}
	if err := root.Symlink(target, fresh); err != nil {
		return err
	}
	return root.Rename(fresh, dataLink)
}

// setAccess sets the mode and owner of each file, and gives files and folders to the pod's group.
func setAccess(root *os.Root, want content, acc access) error {
	for p, f := range want {
		mode := os.FileMode(f.mode & 0o777)
		if acc.group != nil {
			mode |= 0o440
		}

		uid, gid := 0, 0
		if f.uid != nil {
			uid = int(*f.uid)
		}
		if acc.group != nil {
			gid = int(*acc.group)
		}

		if uid != os.Geteuid() || gid != os.Getegid() {
			if err := root.Lchown(p, uid, gid); err != nil {
				return fmt.Errorf("giving volume file its owner: %w", err)
			}
		}
		if err := root.Chmod(p, mode); err != nil {
			return fmt.Errorf("giving volume file its mode: %w", err)
		}
	}

	if acc.group == nil {
		return nil
	}
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if err := root.Lchown(p, -1, int(*acc.group)); err != nil {
			return fmt.Errorf("giving folder to the pod's group: %w", err)
		}
		info, err := root.Lstat(p)
		if err != nil {
			return err
		}
		return root.Chmod(p, info.Mode().Perm()|0o550|os.ModeSetgid)
	})
}

// groupDir gives a folder to a group, adds bits to its mode, and makes new files in it inherit the group.
func groupDir(p string, group int64, bits os.FileMode) error {
	fd, err := unix.Open(p, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("giving folder to the pod's group: %w", err)
	}
	defer unix.Close(fd)
	return giveToGroup(fd, group, uint32(bits.Perm()))
}

// giveToGroup gives what is open (O_PATH) to a group. It adds bits to the mode of a folder, and makes new files in it
// inherit the group. It adds those of them that say read and write to the mode of a file, and changes no mode of
// anything else.
func giveToGroup(fd int, group int64, bits uint32) error {
	if err := unix.Fchownat(fd, "", -1, int(group), unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("giving it to the pod's group: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}

	mode := st.Mode & 0o7777
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= bits | unix.S_ISGID
	case unix.S_IFREG:
		mode |= bits & 0o660
	default:
		return nil
	}
	// an open file of this kind cannot be changed directly before Linux 6.6
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
}

// setRootAccess gives the folder of a volume that the kubelet writes to the pod's group, if there is one.
func setRootAccess(dir string, group *int64) error {
	if group == nil {
		return nil
	}
	return groupDir(dir, *group, 0o050)
}

// setGroup gives a whole tree to the pod's group, which can read and write it. With the policy OnRootMismatch it does
// nothing if the top folder is right. It does not follow links, also not those that a container puts there meanwhile.
func setGroup(dir string, group int64, policy *v1.PodFSGroupChangePolicy) error {
	if policy != nil && *policy == v1.FSGroupChangeOnRootMismatch {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) == nil && int64(st.Gid) == group && st.Mode&unix.S_ISGID != 0 &&
			st.Mode&0o070 == 0o070 {
			return nil
		}
	}

	err := beneath.Walk(context.Background(), dir, func(f *beneath.Entry) (bool, error) {
		fd, err := unix.Openat(f.Folder, f.Name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		defer unix.Close(fd)
		return true, giveToGroup(fd, group, 0o770)
	})
	if err != nil {
		return err
	}
	return groupDir(dir, group, 0o770)
}

// isMount reports whether a file system is mounted at p itself. Linux 5.8 and newer answer directly; on older ones the
// table of mounts is read.
func isMount(p string) (bool, error) {
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

// published reports whether a driver has made a volume available at p: something is mounted there.
func published(p string) (bool, error) { return isMount(p) }

// bindFolder makes the folder source available at p, once.
func bindFolder(source, p string, readOnly bool) error {
	if mounted, err := isMount(p); err != nil || mounted {
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
		return errors.Join(fmt.Errorf("making %s read-only: %w", source, err), unmount(p))
	}
	return nil
}

// linkDevice makes a link to the place of a raw device.
func linkDevice(target, link string) error {
	if have, err := os.Readlink(link); err == nil && have == target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o750); err != nil {
		return fmt.Errorf("making the folder of devices: %w", err)
	}
	if err := removeEmpty(link); err != nil {
		return fmt.Errorf("replacing the link to a device: %w", err)
	}
	if err := os.Symlink(target, link); err != nil {
		return fmt.Errorf("linking to a device: %w", err)
	}
	return nil
}

// mountMemory mounts a tmpfs at dir unless something is mounted there. size is in bytes; 0 leaves the kernel's default,
// half of the memory.
func mountMemory(dir string, size int64, mode os.FileMode, group *int64) error {
	if mounted, err := isMount(dir); err != nil || mounted {
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

// mountHuge mounts a hugetlbfs at dir unless something is mounted there. page is the size of a page in bytes.
func mountHuge(dir string, page int64, group *int64) error {
	if mounted, err := isMount(dir); err != nil || mounted {
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

// unmount unmounts what is at p. If it is in use, it disappears from p at once, and for good once it is not.
func unmount(p string) error {
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
	mounted, err := isMount(p)
	if err != nil {
		return err
	}
	if mounted {
		return fmt.Errorf("%s is a mount: not removed", p)
	}

	return beneath.RemoveAll(p)
}

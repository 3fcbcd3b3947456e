package disk

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/beneath"
)

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

// SetRootAccess gives the folder of a volume that the kubelet writes to the pod's group, if there is one.
func SetRootAccess(dir string, group *int64) error {
	if group == nil {
		return nil
	}
	return groupDir(dir, *group, 0o050)
}

// SetGroup gives a whole tree to the pod's group, which can read and write it. With the policy OnRootMismatch it does
// nothing if the top folder is right. It does not follow links, also not those that a container puts there meanwhile.
func SetGroup(dir string, group int64, policy *v1.PodFSGroupChangePolicy) error {
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

package measure

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/kubelet/volume/disk"
)

// OnDisk returns the number of bytes that a file takes on disk.
func OnDisk(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Blocks) * 512
	}
	return uint64(info.Size())
}

// FileSystem measures a volume that is a file system of its own. It returns false for one that is not.
func FileSystem(dir string) (Usage, bool) {
	if mounted, err := disk.IsMount(dir); err != nil || !mounted {
		return Usage{}, false
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Usage{}, false
	}
	size := uint64(st.Bsize)
	return Usage{UsedBytes: (st.Blocks - st.Bfree) * size, UsedInodes: st.Files - st.Ffree,
		CapacityBytes:  st.Blocks * size,
		AvailableBytes: st.Bavail * size, Inodes: st.Files, InodesFree: st.Ffree}, true
}

package usage

import "golang.org/x/sys/unix"

// sizeOf reads how large a file system is.
func sizeOf(path string, fs *Filesystem) bool {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil || st.Blocks == 0 {
		return false
	}
	fs.Size = st.Blocks * uint64(st.Bsize)
	fs.Used = (st.Blocks - st.Bfree) * uint64(st.Bsize)
	fs.Inodes, fs.InodesFree = st.Files, st.Ffree
	return true
}

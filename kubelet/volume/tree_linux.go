package volume

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/beneath"
)

// tree adds up the files of a folder. It follows no links and enters no other file systems. What cannot be read counts as nothing. whole is false if
// ctx ended before everything was counted, or something was not found again: then there is at least that much.
func tree(ctx context.Context, dir string) (u Usage, whole bool) {
	top, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return u, true
	}
	return treeFrom(ctx, top)
}

// treeFrom is tree from an open folder, which it closes.
func treeFrom(ctx context.Context, top *os.File) (u Usage, whole bool) {
	var here unix.Stat_t
	if err := unix.Fstat(int(top.Fd()), &here); err != nil {
		top.Close()
		return u, true
	}
	count := func(st *unix.Stat_t) {
		u.UsedBytes += uint64(st.Blocks) * 512
		u.UsedInodes++
	}
	count(&here)

	type fileID struct{ dev, ino uint64 }
	seen := map[fileID]bool{} // files with several names count once
	err := beneath.WalkFrom(ctx, top, func(f *beneath.Entry) (bool, error) {
		if f.IsDir() {
			if f.Dev != here.Dev {
				return false, nil
			}
		} else if f.Nlink > 1 {
			id := fileID{f.Dev, f.Ino}
			if seen[id] {
				return false, nil
			}
			seen[id] = true
		}
		count(&f.Stat_t)
		return true, nil
	})
	return u, err == nil
}

// treeOf is tree from an open folder, which stays open.
func treeOf(ctx context.Context, root *os.Root) (u Usage, whole bool) {
	top, err := root.Open(".")
	if err != nil {
		return u, true
	}
	return treeFrom(ctx, top)
}

package measure

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/beneath"
)

// tree adds up the files of a folder. It follows no links and enters no other file systems. What cannot be read counts
// as nothing. whole is false if ctx ended before everything was counted, or something was not found again: then there
// is at least that much.
func tree(ctx context.Context, dir string) (u Usage, whole bool) {
	top, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return u, true
	}
	return treeFrom(ctx, top)
}

// treeFrom is tree from an open folder, which it closes.
func treeFrom(ctx context.Context, top *os.File) (u Usage, whole bool) {
	var err error
	u.UsedBytes, u.UsedInodes, err = beneath.Usage(ctx, top)
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

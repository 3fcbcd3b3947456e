// Package measure counts what volumes take of a disk or of memory. It follows no links and enters no other file
// systems.
package measure

import (
	"context"
	"os"
)

// Usage is what one volume holds. The fields about capacity are zero unless the volume has a file system of its own, in
// memory.
type Usage struct {
	Name                                              string
	UsedBytes, UsedInodes                             uint64
	CapacityBytes, AvailableBytes, Inodes, InodesFree uint64
	// Partial: not everything was counted in time. There is at least that much.
	Partial bool
	// Local marks a volume that is on the node's disk and is removed with the pod: an emptyDir that is not in memory.
	Local bool
	// Claim is the name of the claim that the volume comes from; empty if it has none.
	Claim string
	// Abnormal says whether the volume's driver finds it in a bad state; nil if it says nothing of that.
	Abnormal *bool
}

// Folder returns what the files of an open folder take of the disk, and how many files and folders there are.
func Folder(ctx context.Context, dir *os.Root) (bytes, inodes uint64) {
	u, _ := treeOf(ctx, dir)
	return u.UsedBytes, u.UsedInodes
}

// Files returns what the files of a folder take.
func Files(ctx context.Context, dir string) Usage {
	u, whole := tree(ctx, dir)
	u.Partial = !whole
	return u
}

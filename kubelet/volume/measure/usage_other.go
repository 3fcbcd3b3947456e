//go:build !linux

package measure

import (
	"context"
	"io/fs"
	"os"
)

// tree adds up the files of a folder. It uses handles and follows no links, because containers can change the folder
// meanwhile. What cannot be read counts as nothing; each name of a file counts as a file of its own. whole is false if
// ctx ended before everything was counted: then there is at least that much.
func tree(ctx context.Context, dir string) (u Usage, whole bool) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return u, true
	}
	defer root.Close()
	return treeOf(ctx, root)
}

func treeOf(ctx context.Context, root *os.Root) (u Usage, whole bool) {
	err := fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // it went away meanwhile, or is somebody else's
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if info.Mode().IsRegular() {
			u.UsedBytes += uint64(info.Size())
		}
		u.UsedInodes++
		return nil
	})
	return u, err == nil
}

// OnDisk returns the size of a file.
func OnDisk(info fs.FileInfo) uint64 { return uint64(info.Size()) }

// FileSystem returns false: this system has no file systems of volumes.
func FileSystem(string) (Usage, bool) { return Usage{}, false }

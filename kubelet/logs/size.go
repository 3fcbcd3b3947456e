package logs

import (
	"io/fs"
	"path/filepath"
)

// Size returns how many bytes the files of a folder have, and how many files they are, without the folders in it. What cannot be read
// counts as nothing.
func Size(dir string) (bytes, files uint64) {
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && p != dir {
			return fs.SkipDir
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			bytes, files = bytes+uint64(info.Size()), files+1
		}
		return nil
	})
	return bytes, files
}

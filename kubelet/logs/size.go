package logs

import (
	"io/fs"
	"os"
)

// Folder opens the folder of a log, with the files of all instances of its container. Links on the way from the folder
// of all logs are refused. The caller closes it.
func Folder(log string) (*os.Root, error) {
	dir, _, err := folder(log)
	return dir, err
}

// Size returns how many bytes the files in the folder of a log have, and how many files they are, without the folders
// in it. What cannot be read counts as nothing.
func Size(log string) (bytes, files uint64) {
	dir, err := Folder(log)
	if err != nil {
		return 0, 0
	}
	defer dir.Close()
	entries, _ := fs.ReadDir(dir.FS(), ".")
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			bytes, files = bytes+uint64(info.Size()), files+1
		}
	}
	return bytes, files
}

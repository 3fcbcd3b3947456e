package beneath

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// blockOfStat is the unit of st_blocks (stat(2)), in bytes.
const blockOfStat = 512

// Usage returns the bytes that a folder and everything below it take on the disk, and the number of files and
// folders. It closes the folder. It follows no links and enters no other file system; a file with several names
// counts once. With an error the numbers are those of what was seen before ctx ended, or before a folder was moved
// (ErrLost).
func Usage(ctx context.Context, folder *os.File) (bytes, inodes uint64, err error) {
	var here unix.Stat_t
	if err := unix.Fstat(int(folder.Fd()), &here); err != nil {
		folder.Close()
		return 0, 0, err
	}
	count := func(st *unix.Stat_t) {
		bytes += uint64(st.Blocks) * blockOfStat
		inodes++
	}
	count(&here)

	type fileID struct{ dev, ino uint64 }
	seen := map[fileID]bool{}
	err = WalkFrom(ctx, folder, func(f *Entry) (bool, error) {
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
	return bytes, inodes, err
}

//go:build !windows

package registration

import (
	"fmt"
	"io/fs"
	"syscall"
)

func isSocket(info fs.FileInfo) bool { return info.Mode()&fs.ModeSocket != 0 }

// identify returns what tells a file from a later one of the same name: the number of its inode may be used again, the
// time of its making may be too coarse.
func identify(info fs.FileInfo) identity {
	id := info.ModTime().String()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id += fmt.Sprintf(" %d", st.Ino)
	}
	return identity(id)
}

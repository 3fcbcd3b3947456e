package registration

import (
	"io/fs"
	"strings"
)

// isSocket reports whether a file is a socket. On Windows a socket is a reparse point, which Go shows as a socket or
// as an irregular file by the build of Windows; by its name it is told apart from other reparse points.
func isSocket(info fs.FileInfo) bool {
	return info.Mode()&(fs.ModeSocket|fs.ModeIrregular) != 0 || strings.HasSuffix(info.Name(), ".sock")
}

func identify(info fs.FileInfo) identity { return identity(info.ModTime().String()) }

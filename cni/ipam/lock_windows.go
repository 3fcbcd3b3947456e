package ipam

import (
	"os"
	"strings"

	"golang.org/x/sys/windows"
)

func lockFile(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{})
}

// fileName: a colon cannot be in a file name; host-local writes an underscore too.
func fileName(addr string) string { return strings.ReplaceAll(addr, ":", "_") }

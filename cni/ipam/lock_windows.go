package ipam

import (
	"os"
	"strings"

	"golang.org/x/sys/windows"
)

func lockFile(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{})
}

// fileName returns the name of an address's file. Windows allows no colon in it; host-local writes an underscore too.
func fileName(addr string) string { return strings.ReplaceAll(addr, ":", "_") }

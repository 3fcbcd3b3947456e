package ipam

import (
	"os"
	"strings"

	"golang.org/x/sys/windows"
)

func lockFile(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{})
}

// systemDrive is the drive of folders that are written without one.
func systemDrive() string {
	if d := os.Getenv("SystemDrive"); d != "" {
		return d
	}
	return "C:"
}

// fileName returns the name of an address's file. Windows allows no colon in it; host-local writes an underscore too.
func fileName(addr string) string { return strings.ReplaceAll(addr, ":", "_") }

//go:build !windows

package ipam

import (
	"os"

	"golang.org/x/sys/unix"
)

func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) }

func systemDrive() string { return "" }

func fileName(addr string) string { return addr }

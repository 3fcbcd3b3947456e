package platform

import (
	"fmt"
	"os"
	"syscall"
)

// SameDisk reports whether two folders are on the same file system.
func SameDisk(a, b string) (bool, error) {
	x, err := deviceOf(a)
	if err != nil {
		return false, err
	}
	y, err := deviceOf(b)
	return x == y, err
}

func deviceOf(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("finding the file system of a folder: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("finding the file system of %s: it has no device", path)
	}
	return uint64(st.Dev), nil
}

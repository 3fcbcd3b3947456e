package platform

import (
	"fmt"
	"strings"

	"golang.org/x/sys/windows"
)

// SameDisk reports whether two folders are on the same volume.
func SameDisk(a, b string) (bool, error) {
	x, err := volumeOf(a)
	if err != nil {
		return false, err
	}
	y, err := volumeOf(b)
	return strings.EqualFold(x, y), err
}

// volumeOf returns where the volume of a folder is mounted: C:\, or a folder on another volume.
func volumeOf(path string) (string, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return "", fmt.Errorf("finding the volume of %s: %w", path, err)
	}
	buffer := make([]uint16, windows.MAX_LONG_PATH)
	if err := windows.GetVolumePathName(name, &buffer[0], uint32(len(buffer))); err != nil {
		return "", fmt.Errorf("finding the volume of %s: %w", path, err)
	}
	return windows.UTF16ToString(buffer), nil
}

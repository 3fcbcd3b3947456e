package container

import (
	"path/filepath"
	"strings"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/emulator/wine"
)

// inContainer is the path in the Linux container of a path of the container, whose C: is at driveC. C: itself is
// refused. Another drive is a folder of the prefix, which makeBundle makes.
func inContainer(driveC, path string) (string, error) {
	drive, path, err := splitDrive(path)
	if err != nil {
		return "", err
	}
	if drive != 'c' {
		folder := guest.Drive(drive)
		name, err := hostfs.Below(folder, path)
		return filepath.Join(folder, name), err
	}
	name, err := hostfs.Below(driveC, path)
	if err != nil {
		return "", err
	}
	if name == "" {
		return "", hcsd.ErrNotSupported.WithText(`C:\ itself cannot be mounted over`)
	}
	return guest.DriveC + "/" + name, nil
}

// splitDrive takes the letter off a path on another drive than C:. Wine's own files are at Z:.
func splitDrive(path string) (drive byte, rest string, err error) {
	short := strings.TrimPrefix(path, `\\?\`)
	if !wine.IsWindowsPath(short) || short[0]|0x20 == 'c' {
		return 'c', path, nil
	}
	if drive = short[0] | 0x20; drive == 'z' {
		return drive, "", hcsd.ErrNotSupported.WithText(
			"%s: a container of an emulated host has no drive Z: of its own", path)
	}
	return drive, `\` + strings.TrimLeft(short[2:], `\/`), nil
}

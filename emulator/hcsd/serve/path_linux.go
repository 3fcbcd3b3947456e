package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wine"
)

// below translates a path of Windows to one below the folder that is C:, with slashes, and "" for C: itself. Going up is refused: what it
// means would depend on links.
func below(driveC, path string) (string, error) {
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '\\' || r == '/' }) {
		if part == ".." {
			return "", hcsd.ErrInvalidArgument.WithText(`path %s goes up with ".."`, path)
		}
	}
	linux, err := wine.LinuxPath(driveC, path)
	if err != nil {
		return "", hcsd.ErrPathNotFound.WithText("%v", err)
	}
	return strings.TrimPrefix(strings.TrimPrefix(linux, driveC), "/"), nil
}

// onHost is the Linux path of a file or folder of the host, with all links followed. A link that leads out of the host's C: is refused.
func (s *Service) onHost(path string) (string, error) {
	name, err := below(s.o.driveC(), path)
	if err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(s.o.driveC())
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(root, name))
	if errors.Is(err, os.ErrNotExist) {
		return "", hcsd.ErrPathNotFound.WithText("%s is not on the host", path)
	}
	if err != nil {
		return "", err
	}
	if real != root && !strings.HasPrefix(real, root+"/") {
		return "", hcsd.ErrAccessDenied.WithText("%s leads out of the C: drive of the host", path)
	}
	return real, nil
}

// inContainer is the path in the Linux container of a path of the container, whose C: is at driveC. C: itself is refused. Another drive is a
// folder of the prefix, which makeBundle makes.
func inContainer(driveC, path string) (string, error) {
	drive, path, err := splitDrive(path)
	if err != nil {
		return "", err
	}
	if drive != 'c' {
		folder := guest.Drive(drive)
		name, err := below(folder, path)
		return filepath.Join(folder, name), err
	}
	name, err := below(driveC, path)
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
		return drive, "", hcsd.ErrNotSupported.WithText("%s: a container of an emulated host has no drive Z: of its own", path)
	}
	return drive, `\` + strings.TrimLeft(short[2:], `\/`), nil
}

package wine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrPathEscapes is the cause when a Windows path would leave its drive.
var ErrPathEscapes = errors.New("the path leaves its drive")

// LinuxPath gives the Linux path of a Windows path on C:, whose root is the folder driveC. Accepted are `C:\x`, `C:/x`,
// `\x`, `/x` and relative paths (from the root), with any mix of slashes. Existing components are found whatever their
// case; the rest keeps the given spelling, so the result need not exist. `..` may not lead above the root, and another
// drive, UNC paths, `:` elsewhere and NUL are refused. Symbolic links inside C: are followed by neither check nor
// result: a caller that opens the path on behalf of somebody else opens it with os.Root.
func LinuxPath(driveC, windows string) (string, error) {
	names, err := pathNames(windows)
	if err != nil {
		return "", fmt.Errorf("translating Windows path %q: %w", windows, err)
	}
	path := driveC
	exists := true
	for _, name := range names {
		if exists {
			name, exists = findName(path, name)
		}
		path = filepath.Join(path, name)
	}
	return path, nil
}

// LinuxPath is LinuxPath for a path on any drive of the prefix whose folder lies beside that of C: (guest.AddDrive).
func (p Prefix) LinuxPath(windows string) (string, error) {
	if IsWindowsPath(windows) && windows[0]|0x20 != 'c' {
		drive := filepath.Join(p.Dir, "drive_"+strings.ToLower(windows[:1]))
		if _, err := os.Stat(drive); err == nil {
			return LinuxPath(drive, "C"+windows[1:])
		}
	}
	return LinuxPath(p.DriveC(), windows)
}

// WindowsPath is the way back: `C:\…` for a Linux path under driveC.
func WindowsPath(driveC, path string) (string, error) {
	rel, err := filepath.Rel(driveC, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("translating path %s: it is not below %s", path, driveC)
	}
	if rel == "." {
		return `C:\`, nil
	}
	return `C:\` + strings.ReplaceAll(rel, "/", `\`), nil
}

// IsWindowsPath tells a path with a drive letter from a Linux path.
func IsWindowsPath(path string) bool {
	return len(path) >= 2 && path[1] == ':' && (path[0]|0x20) >= 'a' && (path[0]|0x20) <= 'z'
}

// volumeC is the name that Wine gives the volume of C:; 43 is the code of the letter C. Programs that ask for the
// final name of a file, such as hcsshim, see it in place of C:.
const volumeC = "Volume{00000000-0000-0000-0000-000000000043}"

// pathNames splits a path into its clean components.
func pathNames(windows string) ([]string, error) {
	path := strings.ReplaceAll(windows, `\`, "/")
	for _, prefix := range []string{"//?/", "//./"} {
		path = strings.TrimPrefix(path, prefix)
	}
	if volume, rest, _ := strings.Cut(path, "/"); strings.EqualFold(volume, volumeC) {
		path = "C:/" + rest
	}
	if strings.HasPrefix(path, "//") {
		return nil, errors.New("network paths are not part of a drive")
	}
	if IsWindowsPath(path) {
		if path[0]|0x20 != 'c' {
			return nil, fmt.Errorf("drive %s: does not exist, only C: does", path[:1])
		}
		path = path[2:]
	}

	if strings.ContainsAny(path, ":\x00") {
		return nil, errors.New("it contains a character that Windows does not allow in names")
	}
	var names []string
	for _, name := range strings.Split(path, "/") {
		switch name {
		case "", ".":
		case "..":
			if len(names) == 0 {
				return nil, ErrPathEscapes
			}
			names = names[:len(names)-1]
		default:
			names = append(names, name)
		}
	}
	return names, nil
}

// findName finds an entry of dir by name, exactly or else ignoring case.
func findName(dir, name string) (found string, exists bool) {
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		return name, true
	}
	entries, err := os.ReadDir(dir + "/.") // the dot: a named pipe that has taken the place is not waited for
	if err != nil {
		return name, false
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), name) {
			return e.Name(), true
		}
	}
	return name, false
}

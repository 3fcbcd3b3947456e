// Package paths checks the paths and names that the API gives to volumes, by the rules of either system. It only
// computes.
package paths

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

const (
	maxPathLength = 4096 // of a file inside a volume, bytes
	maxNameLength = 255  // of one element of it, bytes
)

// CleanHostPath turns a hostPath of the API into a path of the node. On Windows it accepts /x, \x, C:\x, c:/x, x,
// \\.\pipe\x and devices. It refuses '..', on Linux relative paths, and on Windows paths of other machines: the node
// would log in at a server that the pod names.
func CleanHostPath(p string, windows bool) (string, error) {
	if p == "" {
		return "", fmt.Errorf("path is empty")
	}
	if hasDotDot(p, windows) {
		return "", fmt.Errorf("path %q must not contain '..'", p)
	}
	if !windows {
		if !strings.HasPrefix(p, "/") {
			return "", fmt.Errorf("path %q is not absolute", p)
		}
		return p, nil
	}
	return windowsPath(p)
}

// CleanContainerPath turns a mountPath of the API into a path inside the container.
func CleanContainerPath(p string, windows bool) (string, error) {
	if windows {
		return CleanHostPath(p, true)
	}
	if p == "" {
		return "", fmt.Errorf("path is empty")
	}
	if hasDotDot(p, false) {
		return "", fmt.Errorf("path %q must not contain '..'", p)
	}
	if !strings.HasPrefix(p, "/") {
		return "/" + p, nil
	}
	return p, nil
}

// local reports whether a path that begins with two backslashes is one of this machine: a pipe, a path on a drive or
// volume, or a device alone. Other names of devices lead to servers in several ways (UNC, GLOBALROOT, Global), and are
// not known to be of this machine.
func local(p string) bool {
	kind := p[:min(4, len(p))]
	if kind != `\\.\` && kind != `\\?\` {
		return false
	}
	first, rest, _ := strings.Cut(p[4:], `\`)
	return rest == "" || kind == `\\.\` && strings.EqualFold(first, "pipe") || len(first) == 2 && hasDrive(first) ||
		strings.HasPrefix(strings.ToLower(first), "volume{")
}

// windowsPath returns p with backslashes and a drive, unless it is a pipe or a device.
func windowsPath(p string) (string, error) {
	p = strings.ReplaceAll(p, "/", `\`)
	if strings.ContainsFunc(strings.TrimPrefix(p, `\\?\`), notInNames) {
		return "", fmt.Errorf("path %q has a character that Windows does not allow", p)
	}

	switch {
	case strings.HasPrefix(p, `\\`): // pipe or device, or a share
		if where, rest, _ := strings.Cut(p[2:], `\`); where == "" || strings.Trim(rest, `\`) == "" {
			return "", fmt.Errorf("path %q names no pipe or device: it must be \\\\.\\pipe\\name", p)
		}
		if !local(p) {
			return "",
				fmt.Errorf(
					"path %q is not one of this machine: use a CSI driver for shares of servers (smb.csi.k8s.io)", p)
		}
		return p, nil
	case hasDrive(p):
		rest := p[2:]
		if strings.Contains(rest, ":") {
			return "", fmt.Errorf("path %q has more than one ':'", p)
		}
		if rest == "" || rest[0] != '\\' {
			rest = `\` + rest
		}
		return p[:2] + squash(rest), nil
	case strings.Contains(p, ":"):
		return "", fmt.Errorf("path %q has a ':' that does not follow a drive letter", p)
	case strings.HasPrefix(p, `\`):
		return `C:` + squash(p), nil
	}
	return `C:` + squash(`\`+p), nil
}

// notInNames reports whether a character cannot be in a name of Windows' file systems (Microsoft, Naming Files, Paths,
// and Namespaces).
func notInNames(r rune) bool { return r < ' ' || strings.ContainsRune(`<>"|?*`, r) }

func hasDrive(p string) bool {
	return len(p) >= 2 && p[1] == ':' && (p[0]|0x20) >= 'a' && (p[0]|0x20) <= 'z'
}

// squash removes empty elements, '.' elements and the last backslash from a path that begins with a backslash.
func squash(p string) string {
	return strings.ReplaceAll(path.Clean(strings.ReplaceAll(p, `\`, "/")), "/", `\`)
}

// hasDotDot reports whether an element of a path is "..", or is read as that.
func hasDotDot(p string, windows bool) bool {
	for _, e := range elements(p, windows) {
		if windows { // a drive letter need not be followed by a slash
			e = e[strings.LastIndexByte(e, ':')+1:]
		}
		// Windows drops trailing dots and spaces, so ".. " and "..." name other folders than they seem to.
		if e == ".." || windows && len(e) > 1 && strings.HasPrefix(e, "..") && strings.Trim(e, ". ") == "" {
			return true
		}
	}
	return false
}

func elements(p string, windows bool) []string {
	if windows {
		p = strings.ReplaceAll(p, `\`, "/")
	}
	return strings.Split(p, "/")
}

// CleanSubPath checks a subPath and returns it with slashes. "" is the volume itself.
func CleanSubPath(p string, windows bool) (string, error) {
	if windows {
		p = strings.ReplaceAll(p, `\`, "/")
	}
	if strings.HasPrefix(p, "/") || windows && strings.Contains(p, ":") {
		return "", fmt.Errorf("subPath %q must be a relative path", p)
	}
	if hasDotDot(p, windows) {
		return "", fmt.Errorf("subPath %q must not contain '..'", p)
	}
	for _, e := range elements(p, false) {
		if windows && e != "." {
			if err := checkWindowsName(e); err != nil {
				return "", fmt.Errorf("subPath %q: %w", p, err)
			}
		}
	}
	if p = path.Clean(p); p == "." {
		return "", nil
	}
	return p, nil
}

// CheckFilePath checks the path of a file inside a volume: an item's path, or a key.
func CheckFilePath(p string, windows bool) error {
	switch {
	case p == "":
		return fmt.Errorf("invalid path: must not be empty")
	case strings.HasPrefix(p, "/"):
		return fmt.Errorf("invalid path %q: must be relative", p)
	case !utf8.ValidString(p): // it could not be listed again
		return fmt.Errorf("invalid path %q: must be UTF-8", p)
	case len(p) > maxPathLength:
		return fmt.Errorf("invalid path: must be at most %d characters", maxPathLength)
	}

	for i, e := range strings.Split(p, "/") {
		switch {
		case e == "..":
			return fmt.Errorf("invalid path %q: must not contain '..'", p)
		case e == "" || e == ".":
			return fmt.Errorf("invalid path %q: has an empty element", p)
		case strings.ContainsRune(e, 0):
			return fmt.Errorf("invalid path %q: has a zero byte", p)
		case i == 0 && strings.HasPrefix(e, ".."):
			return fmt.Errorf("invalid path %q: must not start with '..'", p)
		case len(e) > maxNameLength:
			return fmt.Errorf("invalid path: an element must be at most %d characters", maxNameLength)
		}
		if windows {
			if err := checkWindowsName(e); err != nil {
				return fmt.Errorf("invalid path %q: %w", p, err)
			}
		}
	}
	return nil
}

// checkWindowsName refuses names that mean something else to Windows: streams, devices, and names whose last dots or
// spaces it drops.
func checkWindowsName(e string) error {
	if strings.ContainsAny(e, "\\:<>\"|?*\x00") {
		return fmt.Errorf("%q has a character that Windows does not allow in a name", e)
	}
	if e != strings.TrimRight(e, ". ") {
		return fmt.Errorf("%q ends with a dot or a space", e)
	}

	base, _, _ := strings.Cut(e, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return fmt.Errorf("%q is the name of a Windows device", e)
	}

	number, port := strings.CutPrefix(base, "COM")
	if !port {
		number, port = strings.CutPrefix(base, "LPT")
	}
	if port && utf8.RuneCountInString(number) == 1 && strings.Contains("0123456789¹²³", number) {
		return fmt.Errorf("%q is the name of a Windows device", e)
	}
	return nil
}

// CheckID refuses names that would lead out of their folder, or stand for several folders.
func CheckID(id string) error {
	if id == "" || id == "." || id == ".." || strings.ContainsAny(id, "/\\:*?[\x00") {
		return fmt.Errorf("%q is not the uid of a pod", id)
	}
	return nil
}

// CheckVolumeName refuses names that would lead to another folder.
func CheckVolumeName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\:*?[\x00") {
		return fmt.Errorf("%q is not the name of a volume", name)
	}
	return nil
}

// Hide removes the node's path from an error that the pod's owner will see.
func Hide(err error) error {
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Err
	}
	return err
}

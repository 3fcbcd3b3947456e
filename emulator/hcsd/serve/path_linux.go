package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wine"
)

// below translates a path of Windows to one below the folder that is C:, with slashes, and "" for C: itself. Going up
// is refused: what it means would depend on links.
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

// place is a file or folder that programs of the host can rename or replace. It is held open, so that it stays the
// same for us.
type place struct {
	*os.File        // O_PATH
	real     string // its path on this machine when it was opened
}

// path names the place for system calls of this process.
func (p place) path() string { return fmt.Sprintf("/proc/self/fd/%d", p.Fd()) }

// changeable are the folders below that of the host which programs of the host can change. The folders themselves, and
// those above them, they cannot. The last is that of a layer.
var changeable = regexp.MustCompile(`^(prefix|s[0-9a-f]{5}|hcs/layers/[0-9a-f-]+/(merged|disk))(/|$)`)

// pin opens a path on this machine that is in a changeable folder, as it is: a link on the way is refused. The caller
// closes it.
func (o Options) pin(path string) (place, error) {
	rel, err := filepath.Rel(o.HostDir, path)
	if err != nil {
		return place{}, err
	}
	found := changeable.FindString(rel)
	if found == "" {
		return place{}, fmt.Errorf("%s is not what programs of the host see", path)
	}
	base, err := os.Open(filepath.Join(o.HostDir, found))
	if err != nil {
		return place{}, err
	}
	defer base.Close()
	name := cmp.Or(strings.TrimPrefix(rel[len(strings.TrimSuffix(found, "/")):], "/"), ".")
	f, err := openBeneath(base, name)
	return place{f, path}, err
}

// openBeneath opens a file or folder below a folder. It follows no link.
func openBeneath(folder *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(int(folder.Fd()), name, &how)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN): // something was renamed meanwhile
			continue
		case err != nil:
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}

// openHost opens a file or folder of the host's C:, with all links followed. A link that leads out of C: is refused.
// The caller closes it.
func (s *Service) openHost(path string) (place, error) {
	name, err := below(s.o.driveC(), path)
	if err != nil {
		return place{}, err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(s.o.driveC(), name))
	if errors.Is(err, os.ErrNotExist) {
		return place{}, hcsd.ErrPathNotFound.WithText("%s is not on the host", path)
	}
	if err != nil {
		return place{}, err
	}
	if !within(s.o.driveC(), real) {
		return place{}, hcsd.ErrAccessDenied.WithText("%s leads out of the C: drive of the host", path)
	}
	p, err := s.o.pin(real)
	if err != nil {
		return place{}, hcsd.ErrAccessDenied.WithText("%s was changed meanwhile: %v", path, err)
	}
	return p, nil
}

// openRoot is os.OpenRoot for folders that programs of the host can replace. os.OpenRoot waits for a writer if the path
// has become a named pipe; with the dot at its end that is an error.
func openRoot(path string) (*os.Root, error) { return os.OpenRoot(path + "/.") }

// openC opens the C: of the host. Nothing outside of it can be reached by the root, which the caller closes.
func (o Options) openC() (*os.Root, error) {
	prefix, err := os.OpenRoot(filepath.Join(o.HostDir, "prefix"))
	if err != nil {
		return nil, err
	}
	defer prefix.Close()
	return prefix.OpenRoot("drive_c/.")
}

// maxSmall is the most that is read of a file of the host that holds a word.
const maxSmall = 4096

// readSmall reads a regular file that holds a word. It neither follows a link nor waits for what writes a pipe.
func readSmall(root *os.Root, name string) (string, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmall))
	return string(data), err
}

// openRegular opens a regular file for reading. It neither follows a link nor waits for what writes a pipe.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file", name))
	}
	return f, nil
}

// inContainer is the path in the Linux container of a path of the container, whose C: is at driveC. C: itself is
// refused. Another drive is a folder of the prefix, which makeBundle makes.
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
		return drive, "", hcsd.ErrNotSupported.WithText(
			"%s: a container of an emulated host has no drive Z: of its own", path)
	}
	return drive, `\` + strings.TrimLeft(short[2:], `\/`), nil
}

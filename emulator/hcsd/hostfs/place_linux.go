package hostfs

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

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wine"
)

// Host is the folder of an emulated host: its Wine prefix is in prefix, what hcsd keeps in hcs.
type Host struct{ Dir string }

// DriveC is C: of the host.
func (h Host) DriveC() string { return filepath.Join(h.Dir, "prefix", "drive_c") }

// Path is below hcsd's own folder.
func (h Host) Path(parts ...string) string {
	return filepath.Join(append([]string{h.Dir, "hcs"}, parts...)...)
}

// LayerDir is what the kernel has of a layer.
func (h Host) LayerDir(id string) string { return h.Path("layers", id) }

// MergedDir is where a layer is mounted over those below it.
func (h Host) MergedDir(layer string) string { return filepath.Join(h.LayerDir(layer), "merged") }

// SystemDir is the bundle of a container.
func (h Host) SystemDir(key string) string { return h.Path("systems", key) }

// Below translates a path of Windows to one below the folder that is C:, with slashes, and "" for C: itself. Going up
// is refused: what it means would depend on links.
func Below(driveC, path string) (string, error) {
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

// Place is a file or folder that programs of the host can rename or replace. It is held open, so that it stays the
// same for us.
type Place struct {
	*os.File        // O_PATH
	Real     string // its path on this machine when it was opened
}

// Path names the place for system calls of this process.
func (p Place) Path() string { return fmt.Sprintf("/proc/self/fd/%d", p.Fd()) }

// changeable are the folders below that of the host which programs of the host can change. The folders themselves, and
// those above them, they cannot. The last is that of a layer.
var changeable = regexp.MustCompile(`^(prefix|s[0-9a-f]{5}|hcs/layers/[0-9a-f-]+/(merged|disk))(/|$)`)

// Pin opens a path on this machine that is in a changeable folder, as it is: a link on the way is refused. The caller
// closes it.
func (h Host) Pin(path string) (Place, error) {
	rel, err := filepath.Rel(h.Dir, path)
	if err != nil {
		return Place{}, err
	}
	found := changeable.FindString(rel)
	if found == "" {
		return Place{}, fmt.Errorf("%s is not what programs of the host see", path)
	}
	base, err := os.Open(filepath.Join(h.Dir, found))
	if err != nil {
		return Place{}, err
	}
	defer base.Close()
	name := cmp.Or(strings.TrimPrefix(rel[len(strings.TrimSuffix(found, "/")):], "/"), ".")
	f, err := OpenBeneath(base, name)
	return Place{f, path}, err
}

// OpenBeneath opens a file or folder below a folder. It follows no link.
func OpenBeneath(folder *os.File, name string) (*os.File, error) {
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

// Open opens a file or folder of the host's C:, with all links followed. A link that leads out of C: is refused.
// The caller closes it.
func (h Host) Open(path string) (Place, error) {
	name, err := Below(h.DriveC(), path)
	if err != nil {
		return Place{}, err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(h.DriveC(), name))
	if errors.Is(err, os.ErrNotExist) {
		return Place{}, hcsd.ErrPathNotFound.WithText("%s is not on the host", path)
	}
	if err != nil {
		return Place{}, err
	}
	if !Within(h.DriveC(), real) {
		return Place{}, hcsd.ErrAccessDenied.WithText("%s leads out of the C: drive of the host", path)
	}
	p, err := h.Pin(real)
	if err != nil {
		return Place{}, hcsd.ErrAccessDenied.WithText("%s was changed meanwhile: %v", path, err)
	}
	return p, nil
}

// OpenRoot is os.OpenRoot for folders that programs of the host can replace. os.OpenRoot waits for a writer if the path
// has become a named pipe; with the dot at its end that is an error.
func OpenRoot(path string) (*os.Root, error) { return os.OpenRoot(path + "/.") }

// OpenC opens the C: of the host. Nothing outside of it can be reached by the root, which the caller closes.
func (h Host) OpenC() (*os.Root, error) {
	prefix, err := os.OpenRoot(filepath.Join(h.Dir, "prefix"))
	if err != nil {
		return nil, err
	}
	defer prefix.Close()
	return prefix.OpenRoot("drive_c/.")
}

// maxSmall is the most that is read of a file of the host that holds a word.
const maxSmall = 4096

// ReadSmall reads a regular file that holds a word. It neither follows a link nor waits for what writes a pipe.
func ReadSmall(root *os.Root, name string) (string, error) {
	f, err := OpenRegular(root, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmall))
	return string(data), err
}

// OpenRegular opens a regular file for reading. It neither follows a link nor waits for what writes a pipe.
func OpenRegular(root *os.Root, name string) (*os.File, error) {
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

// Within reports whether a path is that of a folder, or below it.
func Within(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

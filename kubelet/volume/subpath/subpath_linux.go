package subpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/kubelet/volume/disk"
)

// Bind opens volume/sub and mounts what it opened at bind, so that later changes of the path have no effect. It
// makes missing folders with the mode of the volume. Links are resolved once, at the beginning; a link that a container
// puts there afterwards is refused.
func Bind(volume, sub, bind string, _ *Holds) (string, error) {
	root, beneath, missing, err := resolveBeneath(volume, sub)
	if err != nil {
		return "", err
	}
	path := filepath.Join(beneath, filepath.FromSlash(missing))
	fd, err := openBeneath(root, path)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)

	var want unix.Stat_t
	if err := unix.Fstat(fd, &want); err != nil {
		return "", err
	}
	mounted, err := disk.IsMount(bind)
	if err != nil {
		return "", err
	}
	// A bind of before is kept if it is of the same file.
	if mounted {
		var have unix.Stat_t
		if unix.Lstat(bind, &have) == nil && have.Dev == want.Dev && have.Ino == want.Ino {
			return bind, nil
		}
		if err := disk.Unmount(bind); err != nil {
			return "", err
		}
	}

	if err := makeTarget(bind, want.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return "", err
	}
	// The descriptor, not the path, is mounted: the path may be another file's by now.
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), bind, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return "", fmt.Errorf("binding: %w", err)
	}
	return bind, nil
}

// makeTarget makes an empty folder or file to mount on.
func makeTarget(bind string, dir bool) error {
	if info, err := os.Lstat(bind); err == nil && info.IsDir() != dir {
		if err := os.Remove(bind); err != nil {
			return fmt.Errorf("removing old mount point: %w", err)
		}
	}
	if dir {
		return os.MkdirAll(bind, 0o750)
	}
	if err := os.MkdirAll(filepath.Dir(bind), 0o750); err != nil {
		return err
	}
	f, err := os.OpenFile(bind, os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o640)
	if err != nil {
		return err
	}
	return f.Close()
}

// openBeneath opens rel below root. It opens one element after the other, follows no links, and makes folders that do
// not exist with the mode of root. The caller closes the handle.
func openBeneath(root, rel string) (int, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening the volume: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, err
	}
	for _, name := range strings.Split(rel, "/") {
		if name == "." || name == "" {
			continue
		}
		next, err := openOrMake(fd, name, st.Mode&0o7777)
		unix.Close(fd)
		if err != nil {
			return -1, fmt.Errorf("opening %q: %w", name, err)
		}
		fd = next
	}
	return fd, nil
}

// openOrMake opens name in the open folder parent. If it does not exist, openOrMake makes a folder with that mode.
func openOrMake(parent int, name string, mode uint32) (int, error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(parent, name, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		if err = unix.Mkdirat(parent, name, mode); err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, err
		}
		made := err == nil
		if fd, err = unix.Openat(parent, name, flags, 0); err == nil && made {
			_ = os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), os.FileMode(mode&0o777)|special(mode))
		}
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		unix.Close(fd)
		return -1, errors.Join(err, errors.New("unexpected link"))
	}
	return fd, nil
}

// special returns the bits of a mode that os.FileMode has elsewhere and folders can have.
func special(mode uint32) os.FileMode {
	var out os.FileMode
	if mode&unix.S_ISGID != 0 {
		out |= os.ModeSetgid
	}
	if mode&unix.S_ISVTX != 0 {
		out |= os.ModeSticky
	}
	return out
}

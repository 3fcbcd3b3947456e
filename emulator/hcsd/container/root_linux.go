package container

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/beneath"
)

// rootsDir has the folder that the containers of a host have as their root: it has nothing but places for mounts. It
// is not in the host's folder because the containers' user passes through no folder above that.
const rootsDir = "/run/porthole"

// rootFolder is that folder of one host, with the folder of what is being mounted beside it.
type rootFolder struct {
	hostDir string
	tools   wine.Tools
}

func (r *Runtime) root() rootFolder { return rootFolder{r.host.Dir, r.o.Tools} }

// own has both. There may be hosts of the same name in other state folders.
func (r rootFolder) own() string {
	h := fnv.New64a()
	h.Write([]byte(r.hostDir))
	return filepath.Join(rootsDir, fmt.Sprintf("%s-%016x", filepath.Base(r.hostDir), h.Sum64()))
}

func (r rootFolder) path() string { return filepath.Join(r.own(), "root") }

// shown are the folders and files of this machine that containers see.
func (r rootFolder) shown() (list []string) {
	for _, path := range append(confine.Libraries(r.tools), confine.Links...) {
		st, err := os.Lstat(path)
		if err == nil && st.Mode()&os.ModeSymlink == 0 { // ensure makes links of these
			list = append(list, path)
		}
	}
	return list
}

// ensure makes the root folder of containers, with a place for each mount. A place that is there stays.
func (r rootFolder) ensure() error {
	folders := []string{"/proc", "/dev", "/tmp", "/etc", guest.Prefix}
	files := []string{"/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/hosts"}
	for _, path := range r.shown() {
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			folders = append(folders, path)
		} else {
			files = append(files, path)
		}
	}

	for _, path := range folders {
		if err := os.MkdirAll(filepath.Join(r.path(), path), 0o755); err != nil {
			return fmt.Errorf("making the root folder of containers: %w", err)
		}
	}

	for _, path := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(r.path(), path)), 0o755); err != nil {
			return fmt.Errorf("making the root folder of containers: %w", err)
		}
		if err := os.WriteFile(filepath.Join(r.path(), path), nil, 0o644); err != nil {
			return fmt.Errorf("making the root folder of containers: %w", err)
		}
	}
	if err := os.MkdirAll(r.stageDir(), 0o700); err != nil {
		return fmt.Errorf("making the root folder of containers: %w", err)
	}
	for _, path := range confine.Links {
		target, err := os.Readlink(path)
		if err != nil {
			continue // a folder, or not there
		}
		if err := os.Symlink(target, filepath.Join(r.path(), path)); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("making the root folder of containers: %w", err)
		}
	}
	return nil
}

// stageDir has a mount for each file and folder of the host that a container which is being started gets. runc opens
// them by their paths there, which programs of the host cannot change.
func (r rootFolder) stageDir() string { return filepath.Join(r.own(), "stage") }

// stage mounts a place of the host in stageDir and returns the path. unstage takes it away, when the container has
// mounts of its own.
func (r rootFolder) stage(p hostfs.Place, name string) (path string, err error) {
	path = filepath.Join(r.stageDir(), name)
	st, err := p.Stat()
	if err == nil && st.IsDir() {
		err = os.Mkdir(path, 0o700)
	} else if err == nil {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err == nil {
		err = unix.Mount(p.Path(), path, "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err != nil {
		return path, fmt.Errorf("giving a container %s: %w", p.Real, err)
	}
	return path, unix.Mount("", path, "", unix.MS_PRIVATE|unix.MS_REC, "")
}

// unstage takes away what stage made. The folder is only removed when it is empty, so that nothing is removed through
// a mount.
func (r rootFolder) unstage(path string) error {
	err := guest.Unmount(path)
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// unstageAll takes away what an hcsd that was killed has left in stageDir.
func (r rootFolder) unstageAll() error {
	entries, err := os.ReadDir(r.stageDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, r.unstage(filepath.Join(r.stageDir(), e.Name())))
	}
	return err
}

// remove removes the folders in rootsDir of a host that has no containers any more.
func (r rootFolder) remove() error {
	if err := r.unstageAll(); err != nil {
		return err
	}
	err := beneath.RemoveAll(r.own())
	os.Remove(rootsDir) // that of other hosts stays
	return err
}

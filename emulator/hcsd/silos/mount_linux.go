package silos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
)

// mountDrives gives a silo drives of its own, like those of a container: with the host's, a path like /etc/hosts would
// be one of Linux. The host's own programs may be started from anywhere on this machine, for which they need it all as
// a drive.
func (s *Store) mountDrives(dir string) error {
	drives := s.host.Path("drives")
	err := os.Mkdir(drives, 0o755)
	if err == nil {
		err = guest.MakeDrives(drives)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := unix.Mount(drives, filepath.Join(dir, "dosdevices"), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting the drives of a silo: %w", err)
	}
	return nil
}

// mountAgain mounts a folder at dir too. What is mounted in one later is not seen in the other, but is in the host's
// box (emulator/confine).
func mountAgain(from, dir string) error {
	if err := errors.Join(guest.Unmount(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("mounting %s at %s: %w", from, dir, err)
	}
	defer unix.Close(tree)
	for _, propagation := range []uint64{unix.MS_PRIVATE, unix.MS_SHARED} { // a group of its own
		attr := unix.MountAttr{Propagation: propagation}
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			return fmt.Errorf("mounting %s at %s: %w", from, dir, err)
		}
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", from, dir, err)
	}
	return nil
}

// mount mounts from at the root of a mapping. A later mapping of the same root hides the earlier one.
func (s *Store) mount(sl *silo, m mapping, from hostfs.Place) error {
	point, err := s.pointOf(sl, m.Root, from)
	if err != nil {
		return err
	}
	defer point.Close()
	m.Point = point.Real
	if err := unix.Mount(from.Path(), point.Path(), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mapping %s to %s: %w", m.Root, m.Target, err)
	}
	if m.ReadOnly {
		if err := s.makeReadOnly(m.Point); err != nil {
			return errors.Join(fmt.Errorf("mapping %s read-only: %w", m.Root, err), s.unmountPoint(m.Point))
		}
	}
	sl.Maps = append(sl.Maps, m)
	return nil
}

// makeReadOnly makes the mount at a point read-only.
func (s *Store) makeReadOnly(point string) error {
	p, err := s.host.Pin(point)
	if err != nil {
		return err
	}
	defer p.Close()
	return unix.Mount("", p.Path(), "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// unmountPoint takes away the mount at a point. None is success.
func (s *Store) unmountPoint(point string) error {
	p, err := s.host.Pin(point)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.Close()
	return guest.Unmount(p.Path())
}

// removePoint removes a mount point that was made for a mapping. What is not empty meanwhile stays, and so does what
// cannot be reached without a link.
func (s *Store) removePoint(point string) {
	above, err := s.host.Pin(filepath.Dir(point))
	if err != nil {
		return
	}
	defer above.Close()
	if root, err := hostfs.OpenRoot(above.Path()); err == nil {
		_ = root.Remove(filepath.Base(point))
		root.Close()
	}
}

// pointOf opens the file or folder over which a mapping is mounted. Its parent must be there; it is made if it is not.
// The caller closes it.
func (s *Store) pointOf(sl *silo, name string, from hostfs.Place) (hostfs.Place, error) {
	driveC := filepath.Join(sl.Dir, "drive_c")
	rel, err := hostfs.Below(driveC, name)
	if err != nil {
		return hostfs.Place{}, err
	}
	if rel == "" {
		return hostfs.Place{}, hcsd.ErrNotSupported.WithText(`C:\ itself cannot be mapped`)
	}
	real, err := filepath.EvalSymlinks(filepath.Dir(filepath.Join(driveC, rel)))
	if err != nil {
		return hostfs.Place{}, hcsd.ErrPathNotFound.WithText("the folder of %s: %v", name, err)
	}
	if !hostfs.Within(driveC, real) && !s.inLayer(sl, real) {
		return hostfs.Place{}, hcsd.ErrAccessDenied.WithText("%s leads out of the C: drive of the host", name)
	}

	above, err := s.host.Pin(real)
	if err != nil {
		return hostfs.Place{}, err
	}
	defer above.Close()
	made, err := makePoint(above, filepath.Base(rel), from)
	if err != nil {
		return hostfs.Place{}, err
	}
	point := filepath.Join(real, filepath.Base(rel))
	if made {
		sl.Points = append(sl.Points, point)
	}
	return s.host.Pin(point)
}

// makePoint makes a file or folder like from, unless there is one. A link is refused.
func makePoint(above hostfs.Place, name string, from hostfs.Place) (made bool, err error) {
	root, err := hostfs.OpenRoot(above.Path())
	if err != nil {
		return false, err
	}
	defer root.Close()
	switch st, err := root.Lstat(name); {
	case err == nil && st.Mode()&os.ModeSymlink != 0:
		return false, hcsd.ErrNotSupported.WithText("%s is a link", filepath.Join(above.Real, name))
	case err == nil:
		return false, nil
	case !errors.Is(err, os.ErrNotExist):
		return false, err
	}

	st, err := from.Stat()
	if err != nil {
		return false, err
	}
	if st.IsDir() {
		return true, root.Mkdir(name, 0o755)
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// inLayer reports whether a path is on a volume that the silo shows.
func (s *Store) inLayer(sl *silo, path string) bool {
	for _, m := range sl.Maps {
		if m.Layer != "" && hostfs.Within(s.host.MergedDir(m.Layer), path) {
			return true
		}
	}
	return false
}

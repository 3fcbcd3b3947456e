package layers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/slow"
)

// Store owns all layers of a host. It is safe for concurrent use; one layer is changed at a time.
//
// It keeps that
//   - only an active layer is prepared, and the layers below it stay as they are;
//   - a layer on which a system runs is neither unprepared nor destroyed;
//   - a silo that shows a layer has ended before the layer is unmounted;
//   - nothing outside of C: and of our folders is changed, whatever programs of the host do there meanwhile.
//
// Its lock is held while the stores of systems and of silos are asked, which do not call it then.
type Store struct {
	host     hostfs.Host
	template string
	users    users
	drop     func(layer string)

	mu sync.Mutex
}

// users say which system runs on a layer; "" if none does. *systems.Store is one.
type users interface{ UserOf(layer string) string }

// Options of a Store.
type Options struct {
	Host     hostfs.Host
	Template string             // Wine prefix that containers start from: below all layers; required
	Users    users              // required
	Drop     func(layer string) // ends all silos that show a layer; required
}

// New returns the store of the layers that are in the host's folder.
func New(o Options) *Store {
	return &Store{host: o.Host, template: o.Template, users: o.Users, drop: o.Drop}
}

func (s *Store) backing(id string) backing { return backing{s.host.LayerDir(id)} }

// with runs f on the layer at a path of Windows.
func (s *Store) with(path string, f func(*layer) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.open(path)
	if err != nil {
		return err
	}
	defer l.close()
	return f(l)
}

// MakeBase makes of a base layer what programs copy as the disk of a container. Nothing reads what is in it.
func (s *Store) MakeBase(path string) error {
	return s.with(path, func(l *layer) error {
		if info, err := l.root.Lstat(filesOf); err != nil || !info.IsDir() {
			return hcsd.ErrPathNotFound.WithText("layer %s has no folder %s", l.path, filesOf)
		}
		for _, name := range []string{"blank-base.vhdx", "blank.vhdx"} {
			if err := l.write(name, "vhdxfile"); err != nil {
				return err
			}
		}
		return nil
	})
}

// change reads, changes and writes what is kept of a layer.
func (s *Store) change(l *layer, f func(*state)) error {
	if err := s.ensure(l); err != nil {
		return err
	}
	st, err := l.ours.read()
	if err != nil {
		return err
	}
	f(&st)
	return l.ours.write(st)
}

// Activate attaches the disk of a container's own layer.
func (s *Store) Activate(path string) error {
	return s.with(path, func(l *layer) error {
		if _, err := l.root.Lstat(diskName); err != nil {
			return hcsd.ErrFileNotFound.WithText("layer %s has no %s", l.path, diskName)
		}
		return s.change(l, func(st *state) { st.Active = true })
	})
}

// Prepare mounts a container's own layer over those below, topmost first: an overlay that is the C: of the container.
func (s *Store) Prepare(path string, parents []string) error {
	return s.with(path, func(l *layer) error {
		if l.id == "" {
			return hcsd.ErrNotReady.WithText("layer %s is not active", l.path)
		}
		if st, err := l.ours.read(); err != nil || !st.Active {
			return errors.Join(err, hcsd.ErrNotReady.WithText("layer %s is not active", l.path))
		}
		if len(parents) == 0 {
			return hcsd.ErrInvalidArgument.WithText("layer %s has no layers below it", l.path)
		}
		lower, release, err := s.lowerDirs(parents)
		defer release()
		if err != nil {
			return err
		}

		if err := errors.Join(l.ours.mountDisk(), s.change(l, func(st *state) { st.Folder = l.at.Real })); err != nil {
			return err
		}
		upper, work := l.ours.own()
		// The template of a host's C: is below all layers.
		lower = append(lower, filepath.Join(s.template, "drive_c"))
		if err := guest.Mount(l.ours.merged(), lower, upper, work); err != nil {
			return err
		}
		return s.show(l.id, "merged")
	})
}

// Mounted is the folder where the layer of a volume is mounted.
func (s *Store) Mounted(volume string) (string, error) {
	id, ok := hcsd.LayerOfVolume(volume)
	if !ok {
		return "", hcsd.ErrPathNotFound.WithText("Container.Storage.Path %q is no volume of a layer", volume)
	}
	return s.backing(id).mounted(volume)
}

// Hold calls f while no layer is mounted or unmounted. With the volume of a layer, f gets its id and the folder where
// it is mounted, which must be so; with any other path both are empty.
func (s *Store) Hold(volume string, f func(layer, dir string) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := hcsd.LayerOfVolume(volume)
	if _, err := os.Stat(s.host.LayerDir(id)); !ok || err != nil {
		return f("", "")
	}
	dir, err := s.backing(id).mounted(volume)
	if err != nil {
		return err
	}
	return f(id, dir)
}

// MountPath is the volume that shows a layer; of a layer without a folder of ours it is its path.
func (s *Store) MountPath(path string) (volume string, err error) {
	err = s.with(path, func(l *layer) error {
		if l.id == "" {
			volume = l.path
			return nil
		}
		volume = hcsd.Volume(l.id)
		if _, err := l.ours.mounted(volume); err != nil && !l.ours.diskAttached() {
			return err
		}
		return nil
	})
	return volume, err
}

// Unprepare unmounts a container's own layer; what is in it stays. While a system uses it, it fails.
func (s *Store) Unprepare(path string) error {
	return s.with(path, func(l *layer) error {
		if l.id == "" {
			return nil
		}
		if by := s.users.UserOf(l.id); by != "" {
			return hcsd.ErrInUse.WithText("layer %s is the C: of system %s, which runs", l.path, by)
		}
		s.drop(l.id)
		return s.hide(l.id)
	})
}

// Deactivate detaches the disk of a container's own layer.
func (s *Store) Deactivate(path string) error {
	return s.with(path, func(l *layer) error {
		if l.id == "" {
			return nil
		}
		return s.change(l, func(st *state) { st.Active = false })
	})
}

// Exists reports whether there is a folder at a layer's path.
func (s *Store) Exists(path string) (bool, error) {
	err := s.with(path, func(*layer) error { return nil })
	if errors.Is(err, hcsd.ErrPathNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Expand gives the disk of a layer that nobody has used yet a size, in bytes. A smaller one than the disk has is
// success.
func (s *Store) Expand(ctx context.Context, path string, size uint64) error {
	size = max(size, defaultDisk)
	return s.with(path, func(l *layer) error {
		if err := s.ensure(l); err != nil {
			return err
		}
		st, err := l.ours.read()
		if err != nil || st.Size >= size {
			return err
		}
		upper, _ := l.ours.own()
		if used, err := os.ReadDir(upper); err != nil || len(used) > 0 || st.Size > 0 {
			return errors.Join(err, hcsd.ErrNotSupported.WithText(
				"layer %s: a disk that is in use, or has been given a size, cannot be made larger", l.path))
		}
		if err := l.ours.makeDisk(ctx, size); err != nil {
			return err
		}
		st.Size = size
		return l.ours.write(st)
	})
}

// AttachDisk attaches the disk of a layer by the path of the disk's file (virtdisk.dll). It is a volume of the host
// then, with the container's own files only. On Windows that ends with the caller's handle; here it lasts until the
// layer is prepared, unprepared, deactivated or destroyed.
func (s *Store) AttachDisk(file string) error {
	path, ok := cutSuffixFold(file, `\`+diskName)
	if !ok {
		return hcsd.ErrNotSupported.WithText(
			"%s: only disks of containers' layers can be attached, which have the name %s", file, diskName)
	}
	return s.with(path, func(l *layer) error {
		if l.id == "" || !l.ours.hasDisk() {
			return hcsd.ErrNotSupported.WithText("layer %s has no disk with a size of its own", l.path)
		}
		if err := l.ours.mountDisk(); err != nil {
			return err
		}
		return s.show(l.id, diskPoint)
	})
}

// cutSuffixFold is strings.CutSuffix without regard to case.
func cutSuffixFold(s, suffix string) (string, bool) {
	if i := len(s) - len(suffix); i >= 0 && strings.EqualFold(s[i:], suffix) {
		return s[:i], true
	}
	return s, false
}

// endLimit is how long the removal of a layer waits for the end of the system on it.
const endLimit = 30 * time.Second

// awaitEnd waits until no system runs on a layer that containerd has renamed to remove it. Windows refuses to rename
// the folder of a disk that is attached, and containerd's snapshotter tries again later
// (plugins/snapshots/windows/common.go). Wine renames it, and then nobody tries again: its system, whose shim was
// killed, may be about to end.
func (s *Store) awaitEnd(ctx context.Context, path string) {
	if !strings.HasPrefix(strings.ToLower(path[strings.LastIndex(path, `\`)+1:]), "rm-") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(endLimit))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for {
		id := ""
		err := s.with(path, func(l *layer) error {
			id = l.id
			return nil
		})
		if err != nil || id == "" || s.users.UserOf(id) == "" {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Destroy removes a layer with all that is in it. A layer that is not there is success.
func (s *Store) Destroy(ctx context.Context, path string) error {
	p, err := s.host.Open(path)
	if errors.Is(err, hcsd.ErrPathNotFound) {
		return nil
	}
	if err == nil {
		p.Close()
	}
	s.awaitEnd(ctx, path)
	return s.with(path, func(l *layer) error {
		if l.at.Real == filepath.Clean(s.host.DriveC()) {
			return hcsd.ErrAccessDenied
		}
		if l.id != "" {
			if by := s.users.UserOf(l.id); by != "" {
				return hcsd.ErrInUse.WithText("layer %s is the C: of system %s, which runs", l.path, by)
			}
			if err := errors.Join(s.hide(l.id), l.unmountFiles(), beneath.RemoveAll(l.ours.dir)); err != nil {
				return err
			}
		}
		return s.remove(l)
	})
}

// remove removes the folder of a layer.
func (s *Store) remove(l *layer) error {
	above, err := s.host.Pin(filepath.Dir(l.at.Real))
	if err != nil {
		return err
	}
	defer above.Close()
	parent, err := hostfs.OpenRoot(above.Path())
	if err != nil {
		return err
	}
	defer parent.Close()
	err = beneath.RemoveIn(parent, filepath.Base(l.at.Real))
	if errors.Is(err, unix.EBUSY) {
		err = hcsd.ErrInUse.WithText("layer %s: something is mounted in it", l.path)
	}
	return err
}

// Detach unmounts and deactivates the layers of all containers, as the end of Windows does: containerd removes a
// snapshot that it has forgotten only when something else has changed often enough, and nobody unprepares its layer.
func (s *Store) Detach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	states, err := filepath.Glob(filepath.Join(s.host.LayerDir("*"), layerFile))
	if err != nil {
		return err
	}
	var all []error
	for _, file := range states {
		id := filepath.Base(filepath.Dir(file))
		st, err := s.backing(id).read()
		if err == nil {
			s.drop(id)
			st.Active = false
			err = errors.Join(s.hide(id), s.backing(id).write(st))
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// Unmount takes away the mounts of all layers of a host, for when the host is removed. Nothing there is success.
func Unmount(host hostfs.Host) error {
	dirs, err := filepath.Glob(host.LayerDir("*"))
	for _, dir := range dirs {
		err = errors.Join(err, backing{dir}.unmount())
	}
	return err
}

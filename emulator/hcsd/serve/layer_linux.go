package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/slow"
)

// A layer is a folder on C: of the host, which programs rename and remove as they like. What the kernel needs of it is
// in a folder of ours, whose name is a GUID; the file marker in the layer's folder names it.
const (
	marker  = "hcs-layer"
	filesOf = "Files" // the files of a layer, in its folder

	ownFiles  = "own"        // in our folder: what the layer changes, which only the overlay shows
	layerFile = "layer.json" // the state of a container's own layer, in our folder
)

// layerCalls answers the calls about layers.
type layerCalls struct{ *Service }

// layer is one layer folder, opened. Nothing outside of it can be reached by its root.
type layer struct {
	path string // Windows' path, as the caller named it
	at   place
	root *os.Root
	id   string // of our folder; "" if there is none
}

func (l *layer) close() { _ = errors.Join(l.root.Close(), l.at.Close()) }

// write makes a file of the layer, which the host's programs may change. What they have put in its place is replaced.
func (l *layer) write(name, text string) error {
	if err := l.root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := l.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Chown(wine.Owner, wine.Owner), f.Close())
}

// mkdir makes a folder of the layer, unless there is one.
func (l *layer) mkdir(name string) error {
	err := l.root.Mkdir(name, 0o755)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.root.Lchown(name, wine.Owner, wine.Owner)
}

// files opens the layer's folder of files. The caller closes it.
func (l *layer) files() (place, error) {
	f, err := openBeneath(l.at.File, filesOf)
	return place{f, filepath.Join(l.at.real, filesOf)}, err
}

// openLayer opens a layer's folder. The caller closes it.
func (s layerCalls) openLayer(path string) (*layer, error) {
	at, err := s.openHost(path)
	if err != nil {
		return nil, err
	}
	root, err := openRoot(at.path())
	if err != nil {
		at.Close()
		return nil, hcsd.ErrPathNotFound.WithText("layer %s: %v", path, err)
	}
	l := &layer{path: path, at: at, root: root}
	data, err := readSmall(root, marker)
	if err == nil {
		id, ok := hcsd.LayerOfVolume(hcsd.Volume(strings.TrimSpace(data)))
		if _, err := os.Stat(s.o.layerDir(id)); ok && err == nil {
			l.id = id
		}
	}
	return l, nil
}

// ensure makes the folder of ours for a layer that has none.
func (s layerCalls) ensure(l *layer) error {
	if l.id != "" {
		return nil
	}
	id := hcsd.NameToGUID(rand.Text())
	dir := s.o.layerDir(id)
	for _, d := range []string{ownFiles + "/upper", ownFiles + "/work", "merged"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return err
		}
	}
	// The root of an overlay is that of its upper folder.
	upper, _ := s.o.ownDirs(id)
	if err := errors.Join(confine.PassThrough(dir), ownFolder(upper)); err != nil {
		return err
	}
	if err := l.write(marker, id+"\n"); err != nil {
		return fmt.Errorf("marking layer %s: %w", l.path, err)
	}
	l.id = id
	return nil
}

// ownFolder gives a folder to the user that containers run as.
func ownFolder(dir string) error {
	return errors.Join(os.Lchown(dir, wine.Owner, wine.Owner), os.Chmod(dir, 0o755))
}

// withLayer runs f on the layer that a call names.
func (s layerCalls) withLayer(c call, f func(*layer) (result, error)) (result, error) {
	s.layers.Lock()
	defer s.layers.Unlock()
	l, err := s.openLayer(c.subject())
	if err != nil {
		return result{}, err
	}
	defer l.close()
	return f(l)
}

func (s layerCalls) nameToGUID(_ context.Context, c call) (result, error) {
	return result{text: hcsd.NameToGUID(c.subject())}, nil
}

// processBaseImage makes of a base layer what programs copy as the disk of a container. Nothing reads what is in it.
func (s layerCalls) processBaseImage(_ context.Context, c call) (result, error) {
	return s.withLayer(c, func(l *layer) (result, error) {
		if info, err := l.root.Lstat(filesOf); err != nil || !info.IsDir() {
			return result{}, hcsd.ErrPathNotFound.WithText("layer %s has no folder %s", l.path, filesOf)
		}
		for _, name := range []string{"blank-base.vhdx", "blank.vhdx"} {
			if err := l.write(name, "vhdxfile"); err != nil {
				return result{}, err
			}
		}
		return result{}, nil
	})
}

// layerState is what is kept of a container's own layer.
type layerState struct {
	Active bool
	Size   uint64 // of the disk, in bytes; 0: it has all room of this machine's
	Folder string `json:",omitempty"` // of the layer, on this machine, once it has been prepared
}

func (s layerCalls) readLayer(id string) (st layerState, err error) {
	data, err := os.ReadFile(filepath.Join(s.o.layerDir(id), layerFile))
	if errors.Is(err, os.ErrNotExist) {
		return st, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &st)
	}
	return st, err
}

func (s layerCalls) writeLayer(id string, st layerState) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.o.layerDir(id), layerFile), data, 0o600)
}

// change reads, changes and writes what is kept of a layer.
func (s layerCalls) change(l *layer, f func(*layerState)) error {
	if err := s.ensure(l); err != nil {
		return err
	}
	st, err := s.readLayer(l.id)
	if err != nil {
		return err
	}
	f(&st)
	return s.writeLayer(l.id, st)
}

// activateLayer attaches the disk of a container's own layer.
func (s layerCalls) activateLayer(_ context.Context, c call) (result, error) {
	return s.withLayer(c, func(l *layer) (result, error) {
		if _, err := l.root.Lstat(diskName); err != nil {
			return result{}, hcsd.ErrFileNotFound.WithText("layer %s has no %s", l.path, diskName)
		}
		return result{}, s.change(l, func(st *layerState) { st.Active = true })
	})
}

// prepareLayer mounts a container's own layer over those below: an overlay that is the C: of the container.
func (s layerCalls) prepareLayer(_ context.Context, c call) (result, error) {
	return s.withLayer(c, func(l *layer) (result, error) {
		if l.id == "" {
			return result{}, hcsd.ErrNotReady.WithText("layer %s is not active", l.path)
		}
		if st, err := s.readLayer(l.id); err != nil || !st.Active {
			return result{}, errors.Join(err, hcsd.ErrNotReady.WithText("layer %s is not active", l.path))
		}
		parents, err := parentsOf(c.document())
		if err != nil {
			return result{}, err
		}
		if len(parents) == 0 {
			return result{}, hcsd.ErrInvalidArgument.WithText("layer %s has no layers below it", l.path)
		}
		lower, release, err := s.lowerDirs(parents)
		defer release()
		if err != nil {
			return result{}, err
		}

		if err := errors.Join(s.o.mountDisk(l.id),
			s.change(l, func(st *layerState) { st.Folder = l.at.real })); err != nil {
			return result{}, err
		}
		upper, work := s.o.ownDirs(l.id)
		lower = append(lower, filepath.Join(s.o.Template, "drive_c"))
		if err := guest.Mount(filepath.Join(s.o.layerDir(l.id), "merged"), lower, upper, work); err != nil {
			return result{}, err
		}
		return result{}, s.showVolume(l.id, "merged")
	})
}

// volumes is the folder on C: where the host's programs find volumes that have no drive letter
// (emulator/dll/mend_file.c).
const volumes = "System Volume Information"

// showVolume makes a mount in the folder of a layer a volume of the host.
func (s layerCalls) showVolume(id, point string) error {
	c, err := s.o.openC()
	if err != nil {
		return err
	}
	defer c.Close()
	link, target := volumeLink(id), filepath.Join(s.o.layerDir(id), point)
	if shown, err := c.Readlink(link); err == nil && shown == target {
		return nil
	}
	if err := c.MkdirAll(volumes, 0o755); err != nil {
		return err
	}
	if err := c.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return c.Symlink(target, link)
}

// hideLayer unmounts a layer, which is no volume then.
func (s layerCalls) hideLayer(id string) error {
	c, err := s.o.openC()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Remove(volumeLink(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return s.o.unmountLayer(id)
}

// volumeLink is the link of a layer's volume, on C:.
func volumeLink(id string) string { return filepath.Join(volumes, "{"+id+"}") }

func parseSize(text string) (uint64, error) {
	size, err := strconv.ParseUint(text, 10, 63) // as an offset in a file
	if err != nil {
		return 0, hcsd.ErrInvalidArgument.WithText("%q is no size of a disk", text)
	}
	return max(size, defaultDisk), nil
}

// parentsOf reads the paths of layer descriptors, topmost first, which vmcompute.dll sends one a line.
func parentsOf(text string) ([]string, error) {
	parents := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if parents[0] == "" {
		return nil, nil
	}
	return parents, nil
}

// lowerDirs are the folders on this machine with the files of layers. A layer that was imported is finished with its
// first use as one. The caller releases what they are held by when it has mounted them.
func (s layerCalls) lowerDirs(paths []string) (dirs []string, release func(), err error) {
	var held []place
	release = func() {
		for _, p := range held {
			p.Close()
		}
	}
	for _, path := range paths {
		l, err := s.openLayer(path)
		if err != nil {
			return nil, release, err
		}
		dir, files, err := s.filesOf(l)
		l.close()
		if err != nil {
			return nil, release, err
		}
		if files.File != nil {
			held = append(held, files)
		}
		dirs = append(dirs, dir)
	}
	return dirs, release, nil
}

// filesOf is the folder with a layer's files: for an imported one what it changes, in our folder; else files holds it,
// which the caller closes.
func (s layerCalls) filesOf(l *layer) (dir string, files place, err error) {
	if l.id != "" {
		if err := s.unmountFiles(l); err != nil {
			return "", place{}, err
		}
		upper, _ := s.o.ownDirs(l.id)
		return upper, place{}, s.o.mountDisk(l.id)
	}
	if info, err := l.root.Lstat(filesOf); err != nil || !info.IsDir() {
		return "", place{}, hcsd.ErrPathNotFound.WithText("layer %s has no folder %s", l.path, filesOf)
	}
	if files, err = l.files(); err != nil {
		return "", place{}, err
	}
	return files.path(), files, nil
}

// unmountFiles takes away the mount that shows the files of a layer that is being imported. None is success.
func (s layerCalls) unmountFiles(l *layer) error {
	files, err := l.files()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer files.Close()
	return guest.Unmount(files.path())
}

// mountedLayer is the folder where the layer of a volume is mounted.
func (s *Service) mountedLayer(volume string) (string, error) {
	id, ok := hcsd.LayerOfVolume(volume)
	if !ok {
		return "", hcsd.ErrPathNotFound.WithText("Container.Storage.Path %q is no volume of a layer", volume)
	}
	dir := filepath.Join(s.o.layerDir(id), "merged")
	if mounted, err := wine.IsMounted(dir); err != nil || !mounted {
		return "", errors.Join(err, hcsd.ErrNotReady.WithText("the layer of volume %s is not prepared", volume))
	}
	return dir, nil
}

func (s layerCalls) layerMountPath(_ context.Context, c call) (result, error) {
	return s.withLayer(c, func(l *layer) (result, error) {
		if l.id == "" {
			return result{text: l.path}, nil
		}
		if _, err := s.mountedLayer(hcsd.Volume(l.id)); err != nil && !s.diskAttached(l.id) {
			return result{}, err
		}
		return result{text: hcsd.Volume(l.id)}, nil
	})
}

// unprepareLayer unmounts a container's own layer; what is in it stays. While a system uses it, it fails.
func (s layerCalls) unprepareLayer(_ context.Context, c call) (result, error) {
	return s.withLayer(c, func(l *layer) (result, error) {
		if l.id == "" {
			return result{}, nil
		}
		if by := s.userOf(l.id); by != "" {
			return result{}, hcsd.ErrInUse.WithText("layer %s is the C: of system %s, which runs", l.path, by)
		}
		siloCalls(s).dropSilosOn(l.id)
		return result{}, s.hideLayer(l.id)
	})
}

// userOf is the system that runs on a layer, "" if there is none.
func (s layerCalls) userOf(layer string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, sys := range s.systems {
		used, _ := hcsd.LayerOfVolume(sys.Doc.Container.Storage.Path)
		if used == layer && sys.State == hcsd.Running {
			return id
		}
	}
	return ""
}

func (s layerCalls) deactivateLayer(_ context.Context, c call) (result, error) {
	return s.withLayer(c, func(l *layer) (result, error) {
		if l.id == "" {
			return result{}, nil
		}
		return result{}, s.change(l, func(st *layerState) { st.Active = false })
	})
}

func (s layerCalls) layerExists(_ context.Context, c call) (result, error) {
	s.layers.Lock()
	defer s.layers.Unlock()
	l, err := s.openLayer(c.subject())
	if errors.Is(err, hcsd.ErrPathNotFound) {
		return result{}, nil
	}
	if err != nil {
		return result{}, err
	}
	l.close()
	return result{handle: 1}, nil
}

// endLimit is how long the removal of a layer waits for the end of the system on it.
const endLimit = 30 * time.Second

// awaitEnd waits until no system runs on a layer that containerd has renamed to remove it. Windows refuses to rename
// the folder of a disk that is attached, and containerd's snapshotter tries again later
// (plugins/snapshots/windows/common.go). Wine renames it, and then nobody tries again: its system, whose shim was
// killed, may be about to end.
func (s layerCalls) awaitEnd(ctx context.Context, path string) {
	if !strings.HasPrefix(strings.ToLower(path[strings.LastIndex(path, `\`)+1:]), "rm-") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(endLimit))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for {
		s.layers.Lock()
		l, err := s.openLayer(path)
		s.layers.Unlock()
		if err != nil {
			return
		}
		l.close()
		if l.id == "" || s.userOf(l.id) == "" {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// destroyLayer removes a layer with all that is in it. A layer that is not there is success.
func (s layerCalls) destroyLayer(ctx context.Context, c call) (result, error) {
	p, err := s.openHost(c.subject())
	if errors.Is(err, hcsd.ErrPathNotFound) {
		return result{}, nil
	}
	if err == nil {
		p.Close()
	}
	s.awaitEnd(ctx, c.subject())
	return s.withLayer(c, func(l *layer) (result, error) {
		if l.at.real == filepath.Clean(s.o.driveC()) {
			return result{}, hcsd.ErrAccessDenied
		}
		if l.id != "" {
			if by := s.userOf(l.id); by != "" {
				return result{}, hcsd.ErrInUse.WithText("layer %s is the C: of system %s, which runs", l.path, by)
			}
			dir := s.o.layerDir(l.id)
			if err := errors.Join(s.hideLayer(l.id), s.unmountFiles(l), beneath.RemoveAll(dir)); err != nil {
				return result{}, err
			}
		}

		above, err := s.o.pin(filepath.Dir(l.at.real))
		if err != nil {
			return result{}, err
		}
		defer above.Close()
		parent, err := openRoot(above.path())
		if err != nil {
			return result{}, err
		}
		defer parent.Close()
		err = beneath.RemoveIn(parent, filepath.Base(l.at.real))
		if errors.Is(err, unix.EBUSY) {
			err = hcsd.ErrInUse.WithText("layer %s: something is mounted in it", l.path)
		}
		return result{}, err
	})
}

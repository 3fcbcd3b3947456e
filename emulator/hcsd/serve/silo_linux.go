package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/atomicfile"
)

// A silo is a job whose programs see files of their own: those of the bind filter (bindfltapi.dll). It is a second
// mount of the host's Wine prefix, with the mappings mounted on its C:. Wine takes both for one prefix, since device
// and inode are the same, so that the silo's programs have the host's wineserver, registry, pipes and network. A
// program that is made in the job gets the second mount as its prefix (emulator/dll/mend_process.c), and so do those
// that it makes.
//
// Without a silo a mapping is mounted on the C: of the host itself.

// silo is what is kept of one.
type silo struct {
	Dir    string   // where the prefix is mounted once more; that of the host for mappings without a silo
	Points []string // mount points that were made for mappings, which others see as empty
	Maps   []mapping
}

// mapping shows a folder or file at another path.
type mapping struct {
	Root, Target string // Windows' paths, as the caller named them
	Point        string // mount point
	Layer        string // id of the layer whose volume Target is on; "" if it is none
	ReadOnly     bool
}

// Flags of BfSetupFilter (hcsshim, internal/winapi/bindflt.go).
const (
	bindReadOnly = 1
	bindMerged   = 2
)

// siloCalls answers bindfltapi.dll.
type siloCalls struct{ *Service }

// siloDir is where the prefix of a silo is mounted. It is as long as that of the host's prefix, since it takes its
// place in the environment of programs; emulator/dll/mend_process.c computes the same.
func siloDir(hostDir, job string) string {
	h := fnv.New32a()
	h.Write([]byte(strings.ToLower(job)))
	return filepath.Join(hostDir, fmt.Sprintf("s%05x", h.Sum32()&0xfffff))
}

// bind makes one mapping. The document has its flags, where it is seen, and what is seen there, each on a line of its
// own.
func (s siloCalls) bind(ctx context.Context, c call) (result, error) {
	lines := strings.Split(c.document(), "\n")
	if len(lines) != 3 {
		return result{}, hcsd.ErrInvalidArgument
	}
	flags, err := strconv.ParseUint(lines[0], 10, 32)
	if err != nil {
		return result{}, hcsd.ErrInvalidArgument
	}
	if flags&bindMerged != 0 {
		return result{}, hcsd.ErrNotSupported.WithText("mapping %s: contents cannot be merged", lines[1])
	}

	s.layers.Lock()
	defer s.layers.Unlock()
	m := mapping{Root: lines[1], Target: lines[2], ReadOnly: flags&bindReadOnly != 0}
	from, err := s.targetOf(&m)
	if err != nil {
		return result{}, err
	}
	defer from.Close()
	sl, err := s.openSilo(c)
	if err != nil {
		return result{}, err
	}
	return result{}, errors.Join(s.mountMapping(sl, m, from), s.saveSilos())
}

// targetOf opens the folder or file on this machine that a mapping shows. The caller closes it.
func (s siloCalls) targetOf(m *mapping) (place, error) {
	volume, rest := cutVolume(m.Target)
	id, ok := hcsd.LayerOfVolume(volume)
	if _, err := os.Stat(s.o.layerDir(id)); !ok || err != nil { // C:, by its own volume too
		return s.openHost(m.Target)
	}
	dir, err := s.mountedLayer(volume)
	if err != nil {
		return place{}, err
	}
	m.Layer = id
	name, err := below(dir, `C:\`+rest)
	if err != nil {
		return place{}, err
	}
	return s.o.pin(filepath.Join(dir, name))
}

// cutVolume cuts a path at the end of the name of a volume; without one the volume is "".
func cutVolume(path string) (volume, rest string) {
	i := strings.Index(path, "}")
	if !strings.HasPrefix(strings.ToLower(path), `\\?\volume{`) || i < 0 {
		return "", path
	}
	return path[:i+1], strings.Trim(path[i+1:], `\`)
}

// openSilo finds the silo of a job, or makes it; under layers. The connection of the call holds it.
func (s siloCalls) openSilo(c call) (*silo, error) {
	job := c.subject()
	if sl := s.silos[job]; sl != nil {
		return sl, nil
	}
	sl := &silo{Dir: filepath.Join(s.o.HostDir, "prefix")}
	if job != "" {
		sl.Dir = siloDir(s.o.HostDir, job)
		for _, other := range s.silos {
			if other.Dir == sl.Dir {
				return nil, hcsd.ErrInUse.WithText("silo %s: another one has its folder", job)
			}
		}
		if err := mountAgain(filepath.Join(s.o.HostDir, "prefix"), sl.Dir); err != nil {
			return nil, err
		}
		if err := s.mountDrives(sl.Dir); err != nil {
			return nil, errors.Join(err, guest.Unmount(sl.Dir))
		}
		c.holds(job)
	}
	s.silos[job] = sl
	return sl, nil
}

// mountDrives gives a silo drives of its own, like those of a container: with the host's, a path like /etc/hosts would
// be one of Linux. The host's own programs may be started from anywhere on this machine, for which they need it all as
// a drive.
func (s siloCalls) mountDrives(dir string) error {
	drives := s.o.path("drives")
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

// mountMapping mounts from at the root of a mapping. A later mapping of the same root hides the earlier one.
func (s siloCalls) mountMapping(sl *silo, m mapping, from place) error {
	point, err := s.pointOf(sl, m.Root, from)
	if err != nil {
		return err
	}
	defer point.Close()
	m.Point = point.real
	if err := unix.Mount(from.path(), point.path(), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
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
func (s siloCalls) makeReadOnly(point string) error {
	p, err := s.o.pin(point)
	if err != nil {
		return err
	}
	defer p.Close()
	return unix.Mount("", p.path(), "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// unmountPoint takes away the mount at a point. None is success.
func (s siloCalls) unmountPoint(point string) error {
	p, err := s.o.pin(point)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.Close()
	return guest.Unmount(p.path())
}

// removePoint removes a mount point that was made for a mapping. What is not empty meanwhile stays, and so does what
// cannot be reached without a link.
func (s siloCalls) removePoint(point string) {
	above, err := s.o.pin(filepath.Dir(point))
	if err != nil {
		return
	}
	defer above.Close()
	if root, err := openRoot(above.path()); err == nil {
		_ = root.Remove(filepath.Base(point))
		root.Close()
	}
}

// pointOf opens the file or folder over which a mapping is mounted. Its parent must be there; it is made if it is not.
// The caller closes it.
func (s siloCalls) pointOf(sl *silo, name string, from place) (place, error) {
	driveC := filepath.Join(sl.Dir, "drive_c")
	rel, err := below(driveC, name)
	if err != nil {
		return place{}, err
	}
	if rel == "" {
		return place{}, hcsd.ErrNotSupported.WithText(`C:\ itself cannot be mapped`)
	}
	real, err := filepath.EvalSymlinks(filepath.Dir(filepath.Join(driveC, rel)))
	if err != nil {
		return place{}, hcsd.ErrPathNotFound.WithText("the folder of %s: %v", name, err)
	}
	if !within(driveC, real) && !s.inLayer(sl, real) {
		return place{}, hcsd.ErrAccessDenied.WithText("%s leads out of the C: drive of the host", name)
	}

	above, err := s.o.pin(real)
	if err != nil {
		return place{}, err
	}
	defer above.Close()
	made, err := makePoint(above, filepath.Base(rel), from)
	if err != nil {
		return place{}, err
	}
	point := filepath.Join(real, filepath.Base(rel))
	if made {
		sl.Points = append(sl.Points, point)
	}
	return s.o.pin(point)
}

// makePoint makes a file or folder like from, unless there is one. A link is refused.
func makePoint(above place, name string, from place) (made bool, err error) {
	root, err := openRoot(above.path())
	if err != nil {
		return false, err
	}
	defer root.Close()
	switch st, err := root.Lstat(name); {
	case err == nil && st.Mode()&os.ModeSymlink != 0:
		return false, hcsd.ErrNotSupported.WithText("%s is a link", filepath.Join(above.real, name))
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

func within(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// inLayer reports whether a path is on a volume that the silo shows.
func (s siloCalls) inLayer(sl *silo, path string) bool {
	for _, m := range sl.Maps {
		if m.Layer != "" && within(filepath.Join(s.o.layerDir(m.Layer), "merged"), path) {
			return true
		}
	}
	return false
}

// unbind takes one mapping away.
func (s siloCalls) unbind(_ context.Context, c call) (result, error) {
	s.layers.Lock()
	defer s.layers.Unlock()
	sl := s.silos[c.subject()]
	if sl == nil {
		return result{}, hcsd.ErrElementNotFound.WithText("%s is not mapped", c.document())
	}
	for i, m := range sl.Maps {
		if strings.EqualFold(strings.TrimSuffix(m.Root, `\`), strings.TrimSuffix(c.document(), `\`)) {
			sl.Maps = append(sl.Maps[:i:i], sl.Maps[i+1:]...)
			err := s.unmountPoint(m.Point)
			for j, p := range sl.Points {
				if p == m.Point {
					s.removePoint(p)
					sl.Points = append(sl.Points[:j:j], sl.Points[j+1:]...)
					break
				}
			}
			return result{}, errors.Join(err, s.saveSilos())
		}
	}
	return result{}, hcsd.ErrElementNotFound.WithText("%s is not mapped", c.document())
}

// mappings lists the mappings of a silo, or without one those that all programs see: where each is seen and what, a
// line each.
func (s siloCalls) mappings(_ context.Context, c call) (result, error) {
	s.layers.Lock()
	defer s.layers.Unlock()
	var text strings.Builder
	if sl := s.silos[c.subject()]; sl != nil {
		for _, m := range sl.Maps {
			flags := 0
			if m.ReadOnly {
				flags = bindReadOnly
			}
			fmt.Fprintf(&text, "%d\n%s\n%s\n", flags, m.Root, m.Target)
		}
	}
	return result{text: text.String()}, nil
}

// dropSilo ends a silo: nothing of it is mounted any more; under layers.
func (s siloCalls) dropSilo(job string) {
	sl := s.silos[job]
	if sl == nil || job == "" {
		return
	}
	delete(s.silos, job)
	err := guest.Unmount(sl.Dir)
	if err == nil {
		err = os.Remove(sl.Dir)
	}
	if err != nil {
		klog.Background().Error(err, "Removing a silo", "job", job)
	}
	for _, p := range sl.Points {
		if rel, err := filepath.Rel(sl.Dir, p); err == nil && !strings.HasPrefix(rel, "..") {
			p = filepath.Join(s.o.HostDir, "prefix", rel)
		}
		s.removePoint(p)
	}
	if err := s.saveSilos(); err != nil {
		klog.Background().Error(err, "Removing a silo", "job", job)
	}
}

// dropSilos ends silos.
func (s siloCalls) dropSilos(jobs []string) {
	s.layers.Lock()
	defer s.layers.Unlock()
	for _, job := range jobs {
		s.dropSilo(job)
	}
}

// saveSilos writes the silos for the next hcsd; under layers.
func (s siloCalls) saveSilos() error {
	data, err := json.Marshal(s.silos)
	if err != nil {
		return err
	}
	return atomicfile.Write(s.o.path("silos.json"), data, 0o600)
}

// restoreSilos takes over the silos of an earlier hcsd, which go on while programs run in them. The next change of
// their layer ends them.
func (s siloCalls) restoreSilos() error {
	s.layers.Lock()
	defer s.layers.Unlock()
	data, err := os.ReadFile(s.o.path("silos.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s.silos)
	}
	if err != nil {
		return fmt.Errorf("reading the silos of HCS: %w", err)
	}
	for job, sl := range s.silos {
		if pids, err := (wine.Prefix{Dir: sl.Dir}).Processes(); err == nil && len(pids) == 0 {
			s.dropSilo(job)
		}
	}
	return nil
}

// dropSilosOn ends the silos that show a layer's volume; under layers.
func (s siloCalls) dropSilosOn(layer string) {
	for job, sl := range s.silos {
		for _, m := range sl.Maps {
			if m.Layer == layer {
				s.dropSilo(job)
				break
			}
		}
	}
}

// unmountSilos takes away what silos of an earlier hcsd have mounted in a host's folder.
func unmountSilos(hostDir string) error {
	dirs, err := filepath.Glob(filepath.Join(hostDir, "s[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]"))
	for _, dir := range dirs {
		if mounted, e := wine.IsMounted(dir); e != nil || mounted {
			err = errors.Join(err, e, guest.Unmount(dir))
		}
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}

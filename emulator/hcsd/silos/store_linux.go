package silos

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/handles"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/atomicfile"
)

// Store owns all silos and mappings of a host. It is safe for concurrent use.
//
// It keeps that
//   - two silos never have one folder;
//   - a silo ends with the connection that made it, or before, with a layer that it shows;
//   - the file has all of it whenever a call has returned without an error.
//
// Its lock is taken while that of layers is held, and never the other way round.
type Store struct {
	host    hostfs.Host
	file    string // keeps the silos for the next hcsd
	volumes volumes

	mu    sync.Mutex
	silos map[string]*silo // by the name of the job; "" for mappings without one
}

// volumes are the layers that are mounted. *layers.Store has them.
type volumes interface {
	// Hold calls f while no layer is mounted or unmounted. With the volume of a layer, f gets its id and the folder
	// where it is mounted; with any other path both are empty.
	Hold(volume string, f func(layer, dir string) error) error
}

// silo is what is kept of one.
type silo struct {
	Dir    string   // where the prefix is mounted once more; that of the host for mappings without a silo
	Points []string // mount points that were made for mappings, which others see as empty
	Maps   []mapping

	maker handles.Connection // 0: an earlier hcsd's
}

// mapping is one that is mounted.
type mapping struct {
	Root, Target string // Windows' paths, as the caller named them
	Point        string // mount point
	Layer        string // id of the layer whose volume Target is on; "" if it is none
	ReadOnly     bool
}

// Request asks for one mapping.
type Request struct {
	Maker        handles.Connection
	Job          string // "": the mapping is for all programs
	Root, Target string // Windows' paths: where it is seen, and what
	ReadOnly     bool
	Merged       bool // what is at Root is to be seen too
}

// New returns a store without silos.
func New(host hostfs.Host, v volumes) *Store {
	return &Store{host: host, file: host.Path("silos.json"), volumes: v, silos: map[string]*silo{}}
}

// Bind makes one mapping, and the silo of its job if there is none. If the mapping is refused, a silo that was made for
// it stays, without mappings.
func (s *Store) Bind(q Request) error {
	if q.Merged {
		return hcsd.ErrNotSupported.WithText("mapping %s: contents cannot be merged", q.Root)
	}
	volume, rest := cutVolume(q.Target)
	return s.volumes.Hold(volume, func(layer, dir string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		m := mapping{Root: q.Root, Target: q.Target, Layer: layer, ReadOnly: q.ReadOnly}
		from, err := s.targetOf(m, dir, rest)
		if err != nil {
			return err
		}
		defer from.Close()
		sl, err := s.ensure(q.Job, q.Maker)
		if err != nil {
			return err
		}
		return errors.Join(s.mount(sl, m, from), s.save())
	})
}

// targetOf opens the folder or file on this machine that a mapping shows, which is rest below the folder of its layer,
// if it is on one. The caller closes it.
func (s *Store) targetOf(m mapping, dir, rest string) (hostfs.Place, error) {
	if m.Layer == "" { // C:, by its own volume too
		return s.host.Open(m.Target)
	}
	name, err := hostfs.Below(dir, `C:\`+rest)
	if err != nil {
		return hostfs.Place{}, err
	}
	return s.host.Pin(filepath.Join(dir, name))
}

// cutVolume cuts a path at the end of the name of a volume; without one the volume is "".
func cutVolume(path string) (volume, rest string) {
	i := strings.Index(path, "}")
	if !strings.HasPrefix(strings.ToLower(path), `\\?\volume{`) || i < 0 {
		return "", path
	}
	return path[:i+1], strings.Trim(path[i+1:], `\`)
}

// prefix is the host's.
func (s *Store) prefix() string { return filepath.Join(s.host.Dir, "prefix") }

// dirOf is where the prefix of a silo is mounted. It is as long as that of the host's prefix, since it takes its place
// in the environment of programs; emulator/dll/mend_process.c computes the same.
func (s *Store) dirOf(job string) string {
	h := fnv.New32a()
	h.Write([]byte(strings.ToLower(job)))
	return filepath.Join(s.host.Dir, fmt.Sprintf("s%05x", h.Sum32()&0xfffff))
}

// ensure finds the silo of a job, or makes it, for the connection then; under mu.
func (s *Store) ensure(job string, maker handles.Connection) (*silo, error) {
	if sl := s.silos[job]; sl != nil {
		return sl, nil
	}
	sl := &silo{Dir: s.prefix()}
	if job != "" {
		sl.Dir, sl.maker = s.dirOf(job), maker
		for _, other := range s.silos {
			if other.Dir == sl.Dir {
				return nil, hcsd.ErrInUse.WithText("silo %s: another one has its folder", job)
			}
		}
		if err := mountAgain(s.prefix(), sl.Dir); err != nil {
			return nil, err
		}
		if err := s.mountDrives(sl.Dir); err != nil {
			return nil, errors.Join(err, guest.Unmount(sl.Dir))
		}
	}
	s.silos[job] = sl
	return sl, nil
}

// Unbind takes one mapping away.
func (s *Store) Unbind(job, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.silos[job]
	if sl == nil {
		return hcsd.ErrElementNotFound.WithText("%s is not mapped", path)
	}
	for i, m := range sl.Maps {
		if strings.EqualFold(strings.TrimSuffix(m.Root, `\`), strings.TrimSuffix(path, `\`)) {
			sl.Maps = append(sl.Maps[:i:i], sl.Maps[i+1:]...)
			err := s.unmountPoint(m.Point)
			for j, p := range sl.Points {
				if p == m.Point {
					s.removePoint(p)
					sl.Points = append(sl.Points[:j:j], sl.Points[j+1:]...)
					break
				}
			}
			return errors.Join(err, s.save())
		}
	}
	return hcsd.ErrElementNotFound.WithText("%s is not mapped", path)
}

// Mapping is one as programs ask for it.
type Mapping struct {
	Root, Target string
	ReadOnly     bool
}

// Mappings lists the mappings of a silo, or with the job "" those that all programs see.
func (s *Store) Mappings(job string) (list []Mapping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.silos[job]; sl != nil {
		for _, m := range sl.Maps {
			list = append(list, Mapping{m.Root, m.Target, m.ReadOnly})
		}
	}
	return list
}

// Closed ends the silos that a connection has made.
func (s *Store) Closed(maker handles.Connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for job, sl := range s.silos {
		if job != "" && sl.maker == maker {
			s.drop(job)
		}
	}
}

// DropOn ends the silos that show a layer's volume. The mappings of all programs stay.
func (s *Store) DropOn(layer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for job, sl := range s.silos {
		for _, m := range sl.Maps {
			if m.Layer == layer {
				s.drop(job)
				break
			}
		}
	}
}

// drop ends a silo: nothing of it is mounted any more; under mu.
func (s *Store) drop(job string) {
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
			p = filepath.Join(s.prefix(), rel)
		}
		s.removePoint(p)
	}
	if err := s.save(); err != nil {
		klog.Background().Error(err, "Removing a silo", "job", job)
	}
}

// save writes the silos for the next hcsd; under mu.
func (s *Store) save() error {
	data, err := json.Marshal(s.silos)
	if err != nil {
		return err
	}
	return atomicfile.Write(s.file, data, 0o600)
}

// Restore takes over the silos of an earlier hcsd, which go on while programs run in them. The next change of their
// layer ends them.
func (s *Store) Restore() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := os.ReadFile(s.file)
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
			s.drop(job)
		}
	}
	return nil
}

// Unmount takes away what silos of an earlier hcsd have mounted in a host's folder.
func Unmount(host hostfs.Host) error {
	dirs, err := filepath.Glob(filepath.Join(host.Dir, "s[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]"))
	for _, dir := range dirs {
		if mounted, e := wine.IsMounted(dir); e != nil || mounted {
			err = errors.Join(err, e, guest.Unmount(dir))
		}
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}

package layers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/emulator/wine"
)

// A layer is a folder on C: of the host, which programs rename and remove as they like. What the kernel needs of it is
// in a folder of ours, whose name is a GUID; the file marker in the layer's folder names it.
const (
	marker  = "hcs-layer"
	filesOf = "Files" // the files of a layer, in its folder
)

// layer is one layer folder, opened. Nothing outside of it can be reached by its root.
type layer struct {
	path string // Windows' path, as the caller named it
	at   hostfs.Place
	root *os.Root
	id   string  // of our folder; "" if there is none
	ours backing // our folder
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
func (l *layer) files() (hostfs.Place, error) {
	f, err := hostfs.OpenBeneath(l.at.File, filesOf)
	return hostfs.Place{File: f, Real: filepath.Join(l.at.Real, filesOf)}, err
}

// open opens a layer's folder. The caller closes it.
func (s *Store) open(path string) (*layer, error) {
	at, err := s.host.Open(path)
	if err != nil {
		return nil, err
	}
	root, err := hostfs.OpenRoot(at.Path())
	if err != nil {
		at.Close()
		return nil, hcsd.ErrPathNotFound.WithText("layer %s: %v", path, err)
	}
	l := &layer{path: path, at: at, root: root}
	data, err := hostfs.ReadSmall(root, marker)
	if err == nil {
		id, ok := hcsd.LayerOfVolume(hcsd.Volume(strings.TrimSpace(data)))
		if _, err := os.Stat(s.host.LayerDir(id)); ok && err == nil {
			l.id, l.ours = id, s.backing(id)
		}
	}
	return l, nil
}

// ensure makes the folder of ours for a layer that has none.
func (s *Store) ensure(l *layer) error {
	if l.id != "" {
		return nil
	}
	id := hcsd.NameToGUID(rand.Text())
	b := s.backing(id)
	for _, d := range []string{ownFiles + "/upper", ownFiles + "/work", "merged"} {
		if err := os.MkdirAll(filepath.Join(b.dir, d), 0o700); err != nil {
			return err
		}
	}
	// The root of an overlay is that of its upper folder.
	upper, _ := b.own()
	if err := errors.Join(confine.PassThrough(b.dir), ownFolder(upper)); err != nil {
		return err
	}
	if err := l.write(marker, id+"\n"); err != nil {
		return fmt.Errorf("marking layer %s: %w", l.path, err)
	}
	l.id, l.ours = id, b
	return nil
}

package layers

import (
	"errors"
	"os"
	"path/filepath"
)

// volumes is the folder on C: where the host's programs find volumes that have no drive letter
// (emulator/dll/mend_file.c).
const volumes = "System Volume Information"

// show makes a mount in the folder of a layer a volume of the host.
func (s *Store) show(id, point string) error {
	c, err := s.host.OpenC()
	if err != nil {
		return err
	}
	defer c.Close()
	link := volumeLink(id)
	target := filepath.Join(s.host.LayerDir(id), point)
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

// hide unmounts a layer, which is no volume then.
func (s *Store) hide(id string) error {
	c, err := s.host.OpenC()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Remove(volumeLink(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return s.backing(id).unmount()
}

// volumeLink is the link of a layer's volume, on C:.
func volumeLink(id string) string { return filepath.Join(volumes, "{"+id+"}") }

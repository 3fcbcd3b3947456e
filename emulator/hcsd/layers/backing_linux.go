package layers

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wine"
)

const (
	ownFiles  = "own"        // in our folder: what the layer changes, which only the overlay shows
	layerFile = "layer.json" // the state of a container's own layer, in our folder
)

// backing is the folder of ours that has what the kernel needs of a layer. Its name is the layer's id.
type backing struct{ dir string }

// merged is where the layer is mounted over those below it.
func (b backing) merged() string { return filepath.Join(b.dir, "merged") }

// own are the folders for what the layer changes, and for the overlay's own use.
func (b backing) own() (upper, work string) {
	dir := filepath.Join(b.dir, ownFiles)
	if b.hasDisk() {
		dir = filepath.Join(b.dir, diskPoint)
	}
	return filepath.Join(dir, "upper"), filepath.Join(dir, "work")
}

// ownFolder gives a folder to the user that containers run as.
func ownFolder(dir string) error {
	return errors.Join(os.Lchown(dir, wine.Owner, wine.Owner), os.Chmod(dir, 0o755))
}

// state is what is kept of a container's own layer.
type state struct {
	Active bool
	Size   uint64 // of the disk, in bytes; 0: it has all room of this machine's
	Folder string `json:",omitempty"` // of the layer, on this machine, once it has been prepared
}

// read returns the zero state for a layer that has none yet.
func (b backing) read() (st state, err error) {
	data, err := os.ReadFile(filepath.Join(b.dir, layerFile))
	if errors.Is(err, os.ErrNotExist) {
		return st, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &st)
	}
	return st, err
}

func (b backing) write(st state) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, layerFile), data, 0o600)
}

// mounted is the folder where the layer is mounted over those below it. It must be.
func (b backing) mounted(volume string) (string, error) {
	if mounted, err := wine.IsMounted(b.merged()); err != nil || !mounted {
		return "", errors.Join(err, hcsd.ErrNotReady.WithText("the layer of volume %s is not prepared", volume))
	}
	return b.merged(), nil
}

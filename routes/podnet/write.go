package podnet

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"porthole.dev/porthole/internal/atomicfile"
)

// Write puts the configuration into dir, in one step so that no reader sees half of it. It reports whether the file was
// another before.
func (c Conf) Write(dir string) (changed bool, err error) {
	path := filepath.Join(dir, c.Name)
	have, err := os.ReadFile(path)
	if err == nil && bytes.Equal(have, c.Data) {
		return false, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("writing CNI configuration: %w", err)
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, fmt.Errorf("writing CNI configuration: %w", err)
	}
	if err := atomicfile.Write(path, c.Data, 0o644); err != nil {
		return false, fmt.Errorf("writing CNI configuration: %w", err)
	}
	return true, touch(path + ".new")
}

// touch makes a file and removes it, so that containerd reads the folder once more.
//
// containerd reads a configuration when its folder changes, and does not try again. It hears of a rename while the
// renamed file is still open. On Windows its own attempt to open the file fails then ("used by another process", seen
// with containerd.exe 2.3.6), and the node would have no pod network from then on. When touch makes its change, the
// renamed file is closed.
func touch(path string) error {
	err := os.WriteFile(path, nil, 0o644)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("telling the runtime of the CNI configuration: %w", err)
	}
	return nil
}

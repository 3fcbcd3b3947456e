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

// touch makes a file and removes it. containerd reads the folder when something in it changes, and not again: it hears of a rename while the file is
// still open for that, and then Windows lets nobody open it who does not share its removal, as programs in Go (seen with containerd.exe 2.3.6: "used by
// another process"; the node has no network from then on). This is one more change, when the file is closed.
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

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
	return true, nil
}

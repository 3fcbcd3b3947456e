package routes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"porthole.dev/porthole/routes/podnet"
)

// removeConf removes the CNI configuration that this agent writes on Windows, and what belongs to it.
func removeConf(dir string) error {
	if dir == "" {
		return nil
	}
	var errs []error
	for _, name := range []string{podnet.WindowsConfName, podnet.WindowsConfName + ".new", bootMark, bootMark + ".new"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

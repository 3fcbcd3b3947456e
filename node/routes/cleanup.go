package routes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/routes/podnet"
)

// removeConf removes the CNI configuration that this agent writes on Windows, its file of the boot record, and the
// nodes that it remembers.
func removeConf(o Options) error {
	var errs []error
	if o.ConfDir != "" {
		for _, name := range []string{podnet.WindowsConfName, podnet.WindowsConfName + ".new"} {
			if err := os.Remove(filepath.Join(o.ConfDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	if o.StateDir != "" {
		errs = append(errs, bootrecord.Remove(filepath.Join(o.StateDir, bootrecord.Network)))
		if err := os.Remove(filepath.Join(o.StateDir, NodesFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

package install

import (
	"os"
	"path/filepath"
	"slices"
)

// shared are folders that stay even if they are empty: others make and use them.
var shared = []string{"/", "/etc", "/var", "/var/lib", "/opt", "/usr", "/usr/lib", "/etc/systemd",
	"/etc/systemd/system", "/run"}

// prune removes a folder and those above it as long as they are empty. It is no error if one is not.
func prune(dir string) error {
	for len(dir) > len(filepath.VolumeName(dir))+1 && !slices.Contains(shared, dir) {
		if err := os.Remove(dir); err != nil {
			return nil //nolint:nilerr // it is not empty, or gone already
		}
		dir = filepath.Dir(dir)
	}
	return nil
}

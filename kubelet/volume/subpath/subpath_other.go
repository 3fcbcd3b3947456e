//go:build !linux && !windows

package subpath

import (
	"fmt"
	"os"
	"path/filepath"

	"porthole.dev/porthole/kubelet/volume/paths"
)

// Bind checks that volume/sub stays in the volume, makes missing folders, and returns the resolved path: this
// system has no bind mounts. A link that is put in place between this check and the start of the container is not
// noticed.
func Bind(volume, sub, _ string, _ *Holds) (string, error) {
	root, beneath, missing, err := resolveBeneath(volume, sub)
	if err != nil {
		return "", err
	}
	full := filepath.Join(root, beneath, filepath.FromSlash(missing))
	if missing != "" {
		if err := os.MkdirAll(full, 0o755); err != nil {
			return "", fmt.Errorf("making folders: %w", paths.Hide(err))
		}
	}
	return full, nil
}

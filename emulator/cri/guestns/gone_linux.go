package guestns

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/platform"
)

// netnsGone reports whether the network namespace at path has been removed. One that cannot be seen is not gone if its mount
// is there: somebody may have mounted something over its folder. What cannot be read counts as there.
func netnsGone(path string) bool {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return false
	}
	mounted, err := platform.MountPoints()
	if err != nil {
		klog.Background().Error(err, "Looking for network namespaces")
		return false
	}

	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path)) // /var/run is a link, and the mount table has no links
	}
	return !slices.Contains(mounted, path)
}

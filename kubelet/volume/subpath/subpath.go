package subpath

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/kubelet/volume/paths"
)

// held is an open handle of a file or folder, which cannot be replaced while it is open (Windows).
type held interface {
	io.Closer
	// changed returns an error if what is open has become a link.
	changed() error
}

// Holds are what is held for one container.
type Holds []held

// Release closes all handles. Its error names what has become a link meanwhile. A second call does nothing.
func (h *Holds) Release() error {
	var errs []error
	for _, c := range *h {
		errs = append(errs, c.changed())
		_ = c.Close()
	}
	*h = nil
	return errors.Join(errs...)
}

// resolveBeneath follows the links of volume/sub. It returns the volume's real path, the part of sub that exists,
// relative to it, and the part that does not exist yet (missing, with slashes). It refuses a result outside the volume.
func resolveBeneath(volume, sub string) (root, beneath, missing string, err error) {
	if root, err = filepath.EvalSymlinks(volume); err != nil {
		return "", "", "", fmt.Errorf("resolving the volume: %w", err)
	}

	parts := strings.Split(sub, "/")
	// The longest part of the path that exists is resolved; what is missing is made later, without
	// following links.
	for n := len(parts); n >= 0; n-- {
		full := filepath.Join(append([]string{root}, parts[:n]...)...)
		if _, err := os.Lstat(full); err != nil && n > 0 {
			if os.IsNotExist(err) {
				continue
			}
			return "", "", "", paths.Hide(err)
		}

		real, err := filepath.EvalSymlinks(full)
		if err != nil {
			return "", "", "", paths.Hide(err)
		}
		rel, err := filepath.Rel(root, real)
		if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) || filepath.IsAbs(rel) {
			return "", "", "", fmt.Errorf("subPath %q leads out of the volume", sub)
		}
		return root, rel, strings.Join(parts[n:], "/"), nil
	}
	return root, ".", sub, nil
}

package subpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"

	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/paths"
)

// Bind makes missing folders of volume/sub and returns the resolved path: Windows has no bind mounts. It holds
// each element open from its check on, until the caller releases held after the start of the container.
func Bind(volume, sub, _ string, held *Holds) (string, error) {
	root, beneath, missing, err := resolveBeneath(volume, sub)
	if err != nil {
		return "", err
	}
	full := root
	var last *heldFile
	for _, name := range strings.Split(filepath.ToSlash(filepath.Join(beneath, filepath.FromSlash(missing))), "/") {
		if name == "." || name == "" {
			continue
		}
		full = filepath.Join(full, name)
		if last, err = holdElement(full, held); err != nil {
			return "", fmt.Errorf("opening %q: %w", name, paths.Hide(err))
		}
	}
	if last != nil && last.dir { // those above have it in them
		if err := keepFilled(last, held); err != nil {
			return "", paths.Hide(err)
		}
	}
	return full, nil
}

// holdElement holds one element of a sub path. If it does not exist, holdElement makes a folder.
func holdElement(p string, held *Holds) (*heldFile, error) {
	h, link, err := hold(p, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Mkdir(p, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		h, link, err = hold(p, 0)
	}

	if disk.IsBusy(err) { // a file that a program has open for writing
		if h, link, err = hold(p, windows.FILE_SHARE_WRITE); err == nil && h.dir {
			h.Close()
			return nil, errors.New("the folder is open for writing")
		}
	}
	if err != nil {
		return nil, err
	}

	if link {
		h.Close()
		return nil, errors.New("unexpected link")
	}
	*held = append(*held, h)
	return h, nil
}

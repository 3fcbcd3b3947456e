//go:build !windows

package podresources

import (
	"errors"
	"net"
	"os"
	"path/filepath"
)

func listen(dir string) (net.Listener, error) {
	path := filepath.Join(dir, "kubelet.sock")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

//go:build !windows

package platform

import "os"

// Hold does nothing: here only root changes the folders of a node.
func Hold(string) error { return nil }

// Held reports whether a folder is as Hold makes it. A folder that does not exist is fs.ErrNotExist.
func Held(dir string) (bool, error) {
	_, err := os.Stat(dir)
	return err == nil, err
}

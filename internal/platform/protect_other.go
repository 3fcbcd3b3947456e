//go:build !windows

package platform

import "os"

// Protect does nothing on this system: the folder's permission bits already say who may use it.
func Protect(string) error { return nil }

// Protected returns an error if there is no such folder, else true: on this system permission bits say who may use it.
func Protected(dir string) (closed bool, err error) {
	_, err = os.Stat(dir)
	return err == nil, err
}

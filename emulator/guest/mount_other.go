//go:build !linux

package guest

import "errors"

var errLinuxOnly = errors.New("an emulated host needs Linux")

// Mount fails.
func Mount(string, []string, string, string) error { return errLinuxOnly }

// Unmount fails.
func Unmount(string) error { return errLinuxOnly }

//go:build !windows

package platform

// Protect does nothing on this system: the folder's permission bits already say who may use it.
func Protect(string) error { return nil }

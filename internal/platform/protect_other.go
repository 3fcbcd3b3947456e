//go:build !windows

package platform

// Protect does nothing here: the mode that a folder is made with says who may use it.
func Protect(string) error { return nil }

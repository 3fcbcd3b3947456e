//go:build !linux

package platform

// ShareMounts does nothing: only Linux passes mounts on.
func ShareMounts(string) error { return nil }

// UnshareMounts does nothing.
func UnshareMounts(string) error { return nil }

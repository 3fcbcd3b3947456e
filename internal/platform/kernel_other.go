//go:build !linux

package platform

// SetKernel does nothing: only Linux has such settings.
func SetKernel() error { return nil }

// CheckKernel does nothing.
func CheckKernel() error { return nil }

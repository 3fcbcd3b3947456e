//go:build !linux

package resource

// Ensure does nothing: only Linux has cgroups. The runtime limits containers by job objects.
func Ensure(string, Limits) error { return nil }

// Remove does nothing.
func Remove(string) error { return nil }

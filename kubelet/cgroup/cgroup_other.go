//go:build !linux

package cgroup

// Ensure does nothing: only Linux has cgroups. The runtime limits containers by job objects.
func Ensure(string, Limits) error { return nil }

// Resize changes what is below the cgroup that is not there.
func Resize(_ string, _ Limits, change func() error) error { return change() }

// Remove does nothing.
func Remove(string) error { return nil }

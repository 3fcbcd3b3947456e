//go:build !windows

package platform

// CheckBuild returns nil: only Windows has builds that are too old for a node.
func CheckBuild() error { return nil }

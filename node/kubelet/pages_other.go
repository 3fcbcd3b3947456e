//go:build !linux

package kubelet

// releaseProgram does nothing: when memory is short, Windows takes pages from programs that have not used them for
// long.
func releaseProgram() {}

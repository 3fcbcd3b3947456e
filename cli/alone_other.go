//go:build !linux

package cli

// alone does nothing: a Windows process cannot become another program, and there kubelet.exe and porthole.exe have
// pages in common.
func alone([]string) {}

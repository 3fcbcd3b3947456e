//go:build !windows

package windows

func removeProgram(path string) error { return removeFile(path) }

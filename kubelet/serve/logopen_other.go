//go:build !windows

package serve

import "os"

func openLog(path string) (*os.File, error) { return os.Open(path) }

//go:build !linux

package volume

import "os"

func setAccess(*os.Root, content, access) error { return nil }

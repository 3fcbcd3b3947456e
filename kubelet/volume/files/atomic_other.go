//go:build !linux

package files

import "os"

func setAccess(*os.Root, Content, Access) error { return nil }

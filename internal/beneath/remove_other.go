//go:build !linux

package beneath

import "os"

// RemoveAll removes what is at path. os.RemoveAll opens each folder from the one above it and follows no link. It keeps a handle of each folder on the
// way, of which Windows has enough.
func RemoveAll(path string) error { return os.RemoveAll(path) }

// RemoveIn is RemoveAll for what is called name below an open folder.
func RemoveIn(root *os.Root, name string) error { return root.RemoveAll(name) }

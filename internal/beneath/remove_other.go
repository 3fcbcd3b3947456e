//go:build !linux

package beneath

import "os"

// RemoveAll removes what is at path. os.RemoveAll opens each folder from the one above it and follows no link. It keeps
// one handle open for each level of the tree; a Windows process may have 16 million.
func RemoveAll(path string) error { return os.RemoveAll(path) }

// RemoveIn is RemoveAll for what is called name below an open folder.
func RemoveIn(root *os.Root, name string) error { return root.RemoveAll(name) }

//go:build !linux && !windows

package files

import "os"

// swapLink makes ..data point to target. For a moment there is none.
func swapLink(root *os.Root, target string) error {
	if err := removeIn(root, dataLink); err != nil {
		return err
	}
	return root.Symlink(target, dataLink)
}

//go:build !linux && !windows

package volume

import "os"

const onWindows = false

const noFollow = 0 // of os.OpenFile

func isBusy(error) bool { return false }

// swapLink makes ..data point to target. For a moment there is none.
func swapLink(root *os.Root, target string) error {
	if err := removeIn(root, dataLink); err != nil {
		return err
	}
	return root.Symlink(target, dataLink)
}

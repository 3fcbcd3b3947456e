//go:build !linux && !windows

package volume

import (
	"io"
	"os"
)

const onWindows = false

const noFollow = 0 // of os.OpenFile

func isBusy(error) bool { return false }

func holdFolder(string) (h io.Closer, link bool, err error) { return io.NopCloser(nil), false, nil }

// swapLink makes ..data point to target. For a moment there is none.
func swapLink(root *os.Root, target string) error {
	if err := removeIn(root, dataLink); err != nil {
		return err
	}
	return root.Symlink(target, dataLink)
}

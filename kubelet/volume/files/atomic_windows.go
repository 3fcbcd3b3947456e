package files

import (
	"os"

	"porthole.dev/porthole/kubelet/volume/disk"
)

// swapLink makes ..data point to target. Windows cannot replace a link to a folder by a rename, but it can change the
// target of a link in one step (learn.microsoft.com, "Reparse Point Operations": FSCTL_SET_REPARSE_POINT modifies an
// existing reparse point of the same kind). So readers always find ..data. Upstream's kubelet removes the link and
// makes it again.
func swapLink(root *os.Root, target string) error {
	_, err := root.Readlink(dataLink)
	if err == nil {
		err = disk.RetryBusy(func() error { return disk.Retarget(root, dataLink, target) })
	}
	if err == nil {
		return nil
	}

	// There was no link, or the file system cannot change one. In the second case readers find no link for a moment.
	if err := removeIn(root, dataLink); err != nil {
		return err
	}
	return root.Symlink(target, dataLink)
}

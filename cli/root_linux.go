package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"porthole.dev/porthole/internal/ownroot"
)

// inRoot are the commands that start programs of a distribution, Wine among them, or remove what those have made, or
// read it: rules that nft 1.1 of the root folder wrote make nft 1.0.6 of Debian 12 end with SIGSEGV.
var inRoot = []string{"up", "down", "host", "check", "path", "facts"}

// enterRoot starts this program again, in a mount namespace in which /usr is that of the folder "root" beside it. It
// returns if there is no such folder, if this program was started so already, or if the command needs nothing of it.
func enterRoot(args []string) error {
	if len(args) == 0 || !slices.Contains(inRoot, args[0]) || ownroot.Inside() != "" || os.Geteuid() != 0 {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(filepath.Dir(self), "root"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return ownroot.Enter(dir, append([]string{self}, args...), os.Environ())
}

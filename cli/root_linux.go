package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"porthole.dev/porthole/internal/ownroot"
)

// inRoot are the commands that start programs of a distribution, Wine among them, or remove what those have made.
var inRoot = []string{"up", "down", "host", "check"}

// enterRoot runs this program anew with the programs and libraries of the folder "root" beside it, in the place of the machine's. It
// returns if there is no such folder, if this program runs so already, or if the command needs none of it.
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

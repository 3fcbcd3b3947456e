package testkit

import (
	"fmt"
	"os"
	"path/filepath"
)

// DLLs returns the folder of the emulated host's DLLs, which `make dll` builds. root is the way to the top of the source tree.
func DLLs(root string) (string, error) {
	dir, err := filepath.Abs(filepath.Join(root, "bin", "windows", "dll"))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "vmcompute.dll"))
	}
	if err != nil {
		return "", fmt.Errorf("%w (run `make dll` first)", err)
	}
	return dir, nil
}

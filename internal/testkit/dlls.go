package testkit

import (
	"fmt"
	"os"
	"path/filepath"
)

// DLLs returns the folder of the DLLs for emulated hosts, which `make dll` builds. root is the path of the source tree.
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

package testkit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Unfit is a function that no Wine has, by which a mend of the DLL that UnfitDLLs makes does not fit.
const Unfit = "NtQueryValueKez"

// UnfitDLLs makes, in the folder dir, the DLLs for emulated hosts that ask which mends fit a Wine. To them each Wine
// is one that they do not know: one of their mends, "registry", looks for a function that is not there. root is the
// path of the source tree.
func UnfitDLLs(root, dir string) error {
	from, err := DLLs(root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "probe"), 0o755); err != nil {
		return err
	}

	for _, name := range []string{"bcryptprimitives.dll", "probe/mended.exe", "probe/mends.exe"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		// The replacement is of the same length, so that nothing else of the DLL moves.
		if name == "bcryptprimitives.dll" {
			known := []byte("\x00NtQueryValueKey\x00")
			if bytes.Count(data, known) != 1 {
				return fmt.Errorf("%s has the name of the function not once", name)
			}
			data = bytes.Replace(data, known, []byte("\x00"+Unfit+"\x00"), 1)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			return err
		}
	}
	return nil
}

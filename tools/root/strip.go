package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"porthole.dev/porthole/internal/pealign"
)

// windowsFolder has Wine's programs and libraries for Windows.
const windowsFolder = "usr/lib/x86_64-linux-gnu/wine/x86_64-windows"

// stripWindows takes the information for debuggers out of Wine's programs and libraries for Windows, which is four
// fifths of them: Debian ships them so. Wine's debugger then writes addresses in the place of names.
func stripWindows(root *os.Root) error {
	files, err := fs.ReadDir(root.FS(), windowsFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a root folder of a test
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		name := path.Join(windowsFolder, f.Name())
		if !f.Type().IsRegular() {
			continue
		}
		if err := stripFile(root, name); err != nil {
			return fmt.Errorf("taking the debugging information out of %s: %w", name, err)
		}
	}
	return nil
}

// stripFile keeps the time of the file.
func stripFile(root *os.Root, name string) error {
	st, err := root.Stat(name)
	if err != nil {
		return err
	}
	data, err := root.ReadFile(name)
	if err != nil || !bytes.HasPrefix(data, []byte("MZ")) {
		return err
	}
	short, err := pealign.WithoutDebug(data)
	if err != nil || len(short) == len(data) {
		return err
	}
	if err := root.WriteFile(name, short, st.Mode()); err != nil {
		return err
	}
	return root.Chtimes(name, st.ModTime(), st.ModTime())
}

package wine

import (
	"debug/pe"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoFonts: none of our DLLs needs user32.dll, with which Wine loads fonts and their settings: 270 calls to
// wineserver and 40 files in each program that has one of them.
func TestNoFonts(t *testing.T) {
	dlls, err := filepath.Glob("../../bin/windows/dll/*.dll")
	if err != nil {
		t.Fatal(err)
	}
	if len(dlls) == 0 {
		t.Skip("run `make dll` first")
	}

	for _, path := range dlls {
		f, err := pe.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		functions, err := f.ImportedSymbols() // as name:library
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range functions {
			if lower := strings.ToLower(name); strings.HasSuffix(lower, ":user32.dll") ||
				strings.HasSuffix(lower, ":gdi32.dll") {
				t.Errorf("%s imports %s", filepath.Base(path), name)
			}
		}
	}
}

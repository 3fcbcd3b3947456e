package main

import "testing"

// TestNameOf: a runtime starts a plugin by its path, a person as the shell lets it.
func TestNameOf(t *testing.T) {
	for path, want := range map[string]string{
		`C:\opt\cni\bin\win-overlay.exe`: "win-overlay", `c:/k/cni/WinCNI.EXE`: "wincni", "wincni": "wincni",
		`C:win-bridge.exe`: "win-bridge", `C:\Program Files\x.y\nat.exe`: "nat", "": "",
	} {
		if got := nameOf(path); got != want {
			t.Errorf("nameOf(%q) = %q, want %q", path, got, want)
		}
	}
}

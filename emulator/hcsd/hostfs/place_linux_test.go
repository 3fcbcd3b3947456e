package hostfs

import (
	"os"
	"path/filepath"
	"testing"

	"porthole.dev/porthole/emulator/wine"
)

// TestPin: hcsd holds only what programs of the host can change, and follows no link there.
func TestPin(t *testing.T) {
	h := Host{t.TempDir()}
	for _, dir := range []string{"prefix/drive_c/a/b", "hcs/layers/1-2/merged/x", "hcs/layers/1-2/own",
		"s01234/drive_c", "scm"} {
		check(t, os.MkdirAll(filepath.Join(h.Dir, dir), 0o755))
	}
	check(t, os.Symlink("/etc", filepath.Join(h.Dir, "prefix/drive_c/out")))
	check(t, os.Symlink("a", filepath.Join(h.Dir, "prefix/drive_c/in")))
	for path, want := range map[string]bool{
		"prefix": true, "prefix/drive_c/a/b": true, "s01234/drive_c": true, "hcs/layers/1-2/merged/x": true,
		"prefix/drive_c/out": false, "prefix/drive_c/out/passwd": false, "prefix/drive_c/in/b": false,
		"hcs/layers/1-2/own": false, "scm": false, ".": false,
		"prefix/../scm": false, "prefix/drive_c/absent": false,
	} {
		p, err := h.Pin(filepath.Join(h.Dir, path))
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil {
			p.Close()
		}
	}
	if wine.Owner < 1<<16 {
		t.Error("the user of emulated hosts is one that the machine may have")
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

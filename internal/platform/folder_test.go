package platform

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestMakeFolder: a folder has the permissions that were asked for, and one that was open before is closed.
func TestMakeFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("permissions of Unix")
	}
	root := t.TempDir()
	open := filepath.Join(root, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, filepath.Join(root, "new", "below")} {
		for _, perm := range []os.FileMode{Closed, PassThrough} {
			if err := MakeFolder(dir, perm); err != nil {
				t.Fatal(err)
			}
			if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != perm {
				t.Errorf("%s has %v, %v; want %v", dir, st.Mode(), err, perm)
			}
		}
	}
	if st, err := os.Stat(filepath.Join(root, "new")); err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("a folder above has %v, %v", st.Mode(), err)
	}
}

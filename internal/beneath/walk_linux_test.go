package beneath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWalkPaths: an entry knows its path, also below folders that the walk has closed meanwhile. A folder is not
// entered if the visitor says so.
func TestWalkPaths(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(strings.Split(strings.Repeat("d", maxOpenFolders+10), "")...)
	for _, name := range []string{filepath.Join(deep, "file"), "closed/file", "last"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	found := map[string]bool{}
	err := Walk(t.Context(), dir, func(f *Entry) (bool, error) {
		if _, err := os.Lstat(filepath.Join(dir, f.Path())); err != nil {
			t.Error(err)
		}
		found[f.Path()] = true
		return f.Name != "closed", nil
	})
	all := found[filepath.Join(deep, "file")] && found["closed"] && found["last"]
	if err != nil || !all || len(found) != maxOpenFolders+13 {
		t.Errorf("%d entries, %v", len(found), err)
	}
}

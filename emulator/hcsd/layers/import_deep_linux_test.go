package layers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/testkit/deeptree"
)

// TestDeepImport: a layer with folders deeper than any image has is refused before its paths take the memory of hcsd.
func TestDeepImport(t *testing.T) {
	from, to, own := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(from, filesOf), 0o700); err != nil {
		t.Fatal(err)
	}
	deeptree.Make(t, filepath.Join(from, filesOf), strings.Repeat("d", 255), 2000, 0)
	layer, err := os.OpenRoot(own)
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()

	if err := importInto(to, from, layer); err == nil || !strings.Contains(err.Error(), "deeper than") ||
		len(err.Error()) > 1000 {
		t.Errorf("%.200v", err)
	}
	for _, dir := range []string{from, to} {
		if err := beneath.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

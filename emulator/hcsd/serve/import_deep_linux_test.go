package serve

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/beneath"
)

// TestDeepImport: a layer with folders deeper than any image has is refused before its paths take the memory of hcsd.
func TestDeepImport(t *testing.T) {
	from, to, own := t.TempDir(), t.TempDir(), t.TempDir()
	fd, err := unix.Open(from, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for name, i := filesOf, 0; err == nil && i < 2000; i++ {
		parent := fd
		if err = unix.Mkdirat(parent, name, 0o700); err == nil {
			fd, err = unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		}
		unix.Close(parent)
		name = strings.Repeat("d", 255)
	}
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := os.OpenRoot(own)
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()

	if err := importInto(to, from, layer); err == nil || !strings.Contains(err.Error(), "deeper than") || len(err.Error()) > 1000 {
		t.Errorf("%.200v", err)
	}
	for _, dir := range []string{from, to} {
		if err := beneath.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

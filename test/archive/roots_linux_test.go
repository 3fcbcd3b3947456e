package archive

import (
	"os"
	"path/filepath"
	"testing"

	"porthole.dev/porthole/internal/testkit/debian"
)

// rootFiles is a root file system that a container gets.
type rootFiles struct {
	name string
	make func(t *testing.T, dir string)
}

var roots = []rootFiles{
	{"busybox", busybox},
	{"bookworm", suite("bookworm")},
	{"trixie", suite("trixie")},
	{"testing", suite("testing")},
}

// busybox makes a root file system of one static program with its names, and folders to mount on.
func busybox(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	program, err := os.ReadFile("/bin/busybox")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "bin/busybox"), program, 0o755))
	sh(t, "chroot %s /bin/busybox --install -s /bin", dir)
}

// suite makes the smallest root file system of a release of Debian.
func suite(name string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, debian.Bootstrap(dir, name))
	}
}

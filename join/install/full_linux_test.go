package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDiskFull: a file that does not fit is named with its size, the old one stays, and nothing half is left. With
// space it works.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts a small disk: run it as root")
	}
	dir := t.TempDir()
	if err := unix.Mount("full", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})

	path := filepath.Join(dir, "kubelet.conf")
	if err := write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := write(path, make([]byte, 100<<10), 0o600)
	if err == nil || !strings.Contains(err.Error(), "writing "+path+" (102400 bytes): ") ||
		!strings.Contains(err.Error(), "no space left") {
		t.Errorf("a full disk: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if text, again := os.ReadFile(path); err != nil || len(entries) != 1 || again != nil || string(text) != "old" {
		t.Errorf("the disk has %v, the file %q: %v, %v", entries, text, err, again)
	}

	if err := unix.Mount("full", dir, "tmpfs", unix.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	if err := write(path, make([]byte, 100<<10), 0o600); err != nil {
		t.Errorf("with space: %v", err)
	}
}

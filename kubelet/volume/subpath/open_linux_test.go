package subpath

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheWalkFollowsNoLink: a link that is put in place after links were resolved is refused.
func TestTheWalkFollowsNoLink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if fd, err := openBeneath(dir, "out"); err == nil {
		unix.Close(fd)
		t.Error("the walk followed a link")
	}
}

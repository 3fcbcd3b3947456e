package layers

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestUsedBelow: links are not followed, files of several names are counted once, and there is a limit in time.
func TestUsedBelow(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "big")
	check(t, os.WriteFile(outside, make([]byte, 1<<20), 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "a"), make([]byte, 1<<16), 0o600))
	check(t, errors.Join(os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")),
		os.Symlink(outside, filepath.Join(dir, "link")),
		os.Symlink(filepath.Dir(outside), filepath.Join(dir, "folder")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)))
	used, err := usedBelow(dir, time.Now().Add(time.Minute))
	if err != nil || used < 1<<16 || used > 1<<17 {
		t.Errorf("%d bytes, %v", used, err)
	}
	if _, err := usedBelow(dir, time.Now()); !errors.Is(err, errUsageLimit) {
		t.Errorf("without time: %v", err)
	}
}

// TestGrowDisk: the disk's file is the only one that is changed, whatever stands in its place.
func TestGrowDisk(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(t.TempDir(), "other")
	check(t, os.WriteFile(other, []byte("text"), 0o600))
	disk := filepath.Join(dir, diskName)
	check(t, os.Symlink(other, disk))
	if err := growDisk(dir, 100, false); err == nil {
		t.Error("a link is followed")
	}
	check(t, os.Remove(disk))
	check(t, syscall.Mkfifo(disk, 0o600))
	if err := growDisk(dir, 100, false); err == nil {
		t.Error("a pipe is a disk")
	}
	check(t, os.Remove(disk))

	check(t, os.WriteFile(disk, []byte("vhdxfile"), 0o600))
	for _, c := range []struct {
		size    int64
		partial bool
		want    int64
	}{{1000, false, 1000}, {500, true, 1000}, {500, false, 500}, {2000, true, 2000}} {
		check(t, growDisk(dir, c.size, c.partial))
		if st, err := os.Stat(disk); err != nil || st.Size() != c.want {
			t.Errorf("%+v: %v, %v", c, st.Size(), err)
		}
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "text" {
		t.Errorf("another file has %q, %v", text, err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package storagedriver

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMountOptions(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: folders are mounted")
	}
	source, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	if err := publishFolder(source, target, []string{"debug"}, false); err == nil {
		t.Error("an option of ext4 was taken for a folder")
	}
	if err := publishFolder(source, target, []string{"noatime", "nodev"}, true); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := withdraw(target); err != nil {
			t.Error(err)
		}
	}()
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		t.Fatal(err)
	}
	const want, others = unix.ST_NOATIME | unix.ST_NODEV | unix.ST_RDONLY, unix.ST_NOEXEC
	if st.Flags&(want|others) != want {
		t.Errorf("mounted with flags %#x, want %#x and not %#x", st.Flags, want, others)
	}
}

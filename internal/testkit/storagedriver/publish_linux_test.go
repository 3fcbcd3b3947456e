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
	source, dir, peer := t.TempDir(), t.TempDir(), t.TempDir() // as a driver and its node see one folder
	for _, do := range []error{
		unix.Mount("dir", dir, "tmpfs", 0, ""), unix.Mount("", dir, "", unix.MS_SHARED, ""),
		unix.Mount(dir, peer, "", unix.MS_BIND, ""),
	} {
		if do != nil {
			t.Fatal(do)
		}
	}
	t.Cleanup(func() {
		for _, one := range []string{peer, dir} {
			if err := unix.Unmount(one, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	})

	target := filepath.Join(dir, "target")
	if err := publishFolder(source, target, []string{"debug"}, false); err == nil {
		t.Error("an option of ext4 was taken for a folder")
	}
	if err := publishFolder(source, target, []string{"noatime", "nodev"}, true); err != nil {
		t.Fatal(err)
	}
	const want, others = unix.ST_NOATIME | unix.ST_NODEV | unix.ST_RDONLY, unix.ST_NOEXEC
	for _, path := range []string{target, filepath.Join(peer, "target")} {
		var st unix.Statfs_t
		if err := unix.Statfs(path, &st); err != nil {
			t.Fatal(err)
		}
		if st.Flags&(want|others) != want {
			t.Errorf("%s is mounted with flags %#x, want %#x and not %#x", path, st.Flags, want, others)
		}
	}
	if err := withdraw(target); err != nil {
		t.Error(err)
	}
}

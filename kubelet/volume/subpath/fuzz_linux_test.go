package subpath

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/kubelet/volume/paths"
)

// FuzzSubPath opens any subPath in a volume with links to any target. What is opened and made is in the volume.
func FuzzSubPath(f *testing.F) {
	for _, s := range [][2]string{{"link/x", ".."}, {"link", "/etc"}, {"a/link/b", "../../../.."}, {"link/link", "."},
		{"a/b", "a"}, {"link/../x", "a"}, {"link", "link"}} {
		f.Add(s[0], s[1])
	}

	above := f.TempDir()
	dir := filepath.Join(above, "volume")
	f.Fuzz(func(t *testing.T, sub, target string) {
		clean, err := paths.CleanSubPath(sub, false)
		if err != nil {
			return
		}

		if err := os.MkdirAll(filepath.Join(dir, "a"), 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		for _, link := range []string{"link", "a/link"} {
			if os.Symlink(target, filepath.Join(dir, link)) != nil {
				return // not a valid target
			}
		}

		root, beneath, missing, err := resolveBeneath(dir, clean)
		if err != nil {
			if strings.Contains(err.Error(), above) {
				t.Fatalf("the error shows the node's folders: %v", err)
			}
			return
		}
		if root != dir || !filepath.IsLocal(beneath) || missing != "" && !filepath.IsLocal(missing) {
			t.Fatalf("%q gives %q, %q and %q", sub, root, beneath, missing)
		}

		fd, err := openBeneath(root, filepath.Join(beneath, missing))
		if err != nil {
			return
		}
		opened := os.NewFile(uintptr(fd), "opened")
		defer opened.Close()
		checkInside(t, opened, dir)
		if entries, err := os.ReadDir(above); err != nil || len(entries) != 1 {
			t.Fatalf("%v beside the volume: %v", entries, err)
		}
	})
}

// checkInside fails unless what was opened is in the volume.
func checkInside(t *testing.T, opened *os.File, dir string) {
	info, err := opened.Stat()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		one, err := d.Info()
		found = found || err == nil && os.SameFile(info, one)
		return err
	})
	if err != nil || !found {
		t.Fatalf("%s is not in the volume: %v", info.Name(), err)
	}
}

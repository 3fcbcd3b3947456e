package volume

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/kubelet/volume/paths"
)

// pathsOf returns a file for each line of text, which is its path.
func pathsOf(text string) content {
	out := content{}
	for i, p := range strings.Split(text, "\n") {
		out[p] = file{data: []byte(strings.Repeat("x", i)), mode: 0o644}
	}
	return out
}

// inTheWay reports whether the path of a file is a folder of another file.
func inTheWay(files content) bool {
	for p := range files {
		for d := filepath.Dir(p); d != "."; d = filepath.Dir(d) {
			if _, is := files[d]; is {
				return true
			}
		}
	}
	return false
}

// FuzzFiles writes files with any paths, and then others. Paths are refused, or the files are there under their names
// and nowhere else, and the second ones replace the first.
func FuzzFiles(f *testing.F) {
	for _, s := range [][2]string{{"a\nb/c", "b/d"}, {"a", "a/b"}, {"..data\n../x", "."}, {"a/b\na/..c", "a"},
		{"\x00", "a\\b\nnul\nCOM¹"}, {"a//b", "/etc/x"}} {
		f.Add(s[0], s[1])
	}

	above := f.TempDir()
	dir := filepath.Join(above, "volume")
	f.Fuzz(func(t *testing.T, first, second string) {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)

		for _, text := range []string{first, second} {
			want := pathsOf(text)
			if len(want) > 20 || want.check(false) != nil {
				continue
			}

			_, err := writeFiles(dir, want, access{})
			if inTheWay(want) {
				if err == nil {
					t.Fatalf("%q: files that are also folders were written", text)
				}
				continue
			}
			if err != nil {
				if len(text) < 1024 { // longer names may be refused by the system
					t.Fatal(err)
				}
				continue
			}

			have, _, err := filesOf(dir)
			if err != nil || !equalFiles(have, want) {
				t.Fatalf("%q: %v %v", text, have, err)
			}
			for p, w := range want { // as a program in the container opens them
				if data, err := os.ReadFile(filepath.Join(dir, p)); err != nil || string(data) != string(w.data) {
					t.Fatalf("%q: %q %v", p, data, err)
				}
			}
			if entries, err := os.ReadDir(above); err != nil || len(entries) != 1 {
				t.Fatalf("%v beside the volume: %v", entries, err)
			}
		}
	})
}

func filesOf(dir string) (content, layout, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, layoutNone, err
	}
	defer root.Close()
	return readFiles(root)
}

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

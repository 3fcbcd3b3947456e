package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pathsOf returns a file for each line of text, which is its path.
func pathsOf(text string) Content {
	out := Content{}
	for i, p := range strings.Split(text, "\n") {
		out[p] = File{Data: []byte(strings.Repeat("x", i)), Mode: 0o644}
	}
	return out
}

// inTheWay reports whether the path of a file is a folder of another file.
func inTheWay(files Content) bool {
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
			if len(want) > 20 || want.Check(false) != nil {
				continue
			}

			_, err := Write(dir, want, Access{})
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
				if data, err := os.ReadFile(filepath.Join(dir, p)); err != nil || string(data) != string(w.Data) {
					t.Fatalf("%q: %q %v", p, data, err)
				}
			}
			if entries, err := os.ReadDir(above); err != nil || len(entries) != 1 {
				t.Fatalf("%v beside the volume: %v", entries, err)
			}
		}
	})
}

func filesOf(dir string) (Content, layout, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, layoutNone, err
	}
	defer root.Close()
	return readFiles(root)
}

package beneath

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// tree makes a folder a/b with a file, and beside it a folder with a secret. It returns both.
func tree(t *testing.T) (root, outside string) {
	t.Helper()
	root, outside = t.TempDir(), t.TempDir()
	err := errors.Join(os.MkdirAll(filepath.Join(root, "a", "b"), 0o755),
		os.WriteFile(filepath.Join(root, "a", "b", "file"), []byte("own"), 0o600),
		os.MkdirAll(filepath.Join(outside, "b"), 0o755),
		os.WriteFile(filepath.Join(outside, "b", "file"), []byte("secret"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return root, outside
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no links here:", err)
	}
}

func TestFile(t *testing.T) {
	root, _ := tree(t)
	f, err := File(root, "a", "b", "file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "own" {
		t.Errorf("%q %v", text, err)
	}
	for _, bad := range [][]string{{}, {"a"}, {"a", "b"}, {"a", "b", ""}, {"a", "..", "a", "b", "file"},
		{"a/b", "file"}, {`a\b`, "file"}, {"."}, {"/", "a"}} {
		if f, err := File(root, bad...); err == nil {
			f.Close()
			t.Errorf("%q was opened", bad)
		}
	}
	if _, err := File(root, "a", "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestLinks: a link at any element is refused, also one that stays below the root, and one that leads to the file
// itself. The root may be one.
func TestLinks(t *testing.T) {
	for _, inside := range []bool{true, false} {
		for _, at := range []string{"a", "a/b", "a/b/file"} {
			root, outside := tree(t)
			base := outside
			if inside {
				base = filepath.Join(root, "elsewhere")
				if err := os.Rename(filepath.Join(root, "a"), base); err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(filepath.Join(root, "a", "b"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			targets := map[string]string{"a": base, "a/b": filepath.Join(base, "b"),
				"a/b/file": filepath.Join(base, "b", "file")}
			link(t, targets[at], filepath.Join(root, filepath.FromSlash(at)))
			if f, err := File(root, "a", "b", "file"); !errors.Is(err, ErrKind) {
				f.Close()
				t.Errorf("link at %s, inside %t: %v", at, inside, err)
			}
		}
	}

	root, _ := tree(t)
	alias := filepath.Join(t.TempDir(), "alias")
	link(t, root, alias)
	f, err := File(alias, "a", "b", "file")
	if err != nil {
		t.Fatalf("a root that is a link: %v", err)
	}
	f.Close()
}

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestWriteThrough(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key.pem")

	// What a write that was cut short left behind, open to others.
	if err := os.WriteFile(path+".new", []byte("half of something long"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second"} {
		if err := WriteThrough(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Fatalf("file has %q, %v; want %q", got, err, text)
		}
	}
	if st, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Errorf("permissions: %v, %v", st, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("folder has %v, %v; want one file", entries, err)
	}
}

// TestWriteThroughFails: the old content stays, and nothing else does.
func TestWriteThroughFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteThrough(path, []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file: %v", err)
	}
	if err := WriteThrough(filepath.Join(dir, "missing", "x"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a missing folder: %v", err)
	}
}

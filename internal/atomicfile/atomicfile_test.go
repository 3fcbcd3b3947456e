package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")

	// What a write that was cut short left behind.
	if err := os.WriteFile(path+".new", []byte("half of something long"), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, text := range []string{"first", "second"} {
		if err := Write(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Fatalf("file has %q, %v; want %q", got, err, text)
		}
	}

	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("folder has %v, %v; want one file", entries, err)
	}
}

func TestWriteLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")

	// A folder cannot be replaced by a file.
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("x"), 0o644); err == nil {
		t.Fatal("replacing a folder succeeded")
	}
	if err := Write(filepath.Join(dir, "missing", "state.json"), nil, 0o644); err == nil {
		t.Fatal("writing into a missing folder succeeded")
	}
}

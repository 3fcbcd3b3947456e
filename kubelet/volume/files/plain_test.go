package files

import (
	"os"
	"testing"
)

func TestPlainFilesWhereLinksDoNotWork(t *testing.T) {
	dir := t.TempDir()
	step := func(want Content) {
		t.Helper()
		if err := writePlain(openRoot(t, dir), want, Access{}); err != nil {
			t.Fatal(err)
		}
		have, mode, err := readFiles(openRoot(t, dir))
		if err != nil || !equalFiles(have, want) || len(want) > 0 && mode != layoutPlain {
			t.Fatalf("have %v mode %v: %v", have, mode, err)
		}
		if changed, err := Write(dir, want, Access{}); len(want) > 0 && (changed || err != nil) {
			t.Fatalf("second write: changed %v: %v", changed, err)
		}
	}
	step(Content{"a": {Data: []byte("1"), Mode: 0o644}, "d/x": {Data: []byte("2"), Mode: 0o600}})
	step(Content{"a/b": {Data: []byte("1"), Mode: 0o644}, "d": {Data: []byte("2"), Mode: 0o600}})
	step(Content{"z": {Data: []byte("3"), Mode: 0o644}})
	step(Content{})
}

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

// TestHeldByAnother: while a program has a file open and does not share its removal, the folder above it cannot be
// removed; nor can a folder be renamed that a program has open. (With only a file below open, Windows does not rename
// it either, but Wine does.) Both are tried again for a while, then the error names the folder and says why; when the
// program closes its handle in time, they succeed.
// Row 1.18.
func TestHeldByAnother(t *testing.T) {
	top := t.TempDir()
	tree, moved := filepath.Join(top, "tree"), filepath.Join(top, "moved")
	acts := map[string]struct {
		held string
		act  func() error
	}{
		"removing": {filepath.Join(tree, "below", "held"), func() error { return RemoveTree(tree) }},
		"renaming": {tree, func() error { return RetryBusy(func() error { return os.Rename(tree, moved) }) }},
	}
	for what, c := range acts {
		t.Run(what, func(t *testing.T) {
			handle := makeAndHold(t, tree, c.held)
			begin := time.Now()
			err := c.act()
			if err == nil || !strings.Contains(err.Error(), tree) || !IsBusy(err) {
				t.Errorf("with an open file below: %v", err)
			}
			if took := time.Since(begin); took < time.Second { // busyAttempts take 1.3 s
				t.Errorf("it gave up after %v", took)
			}
			if _, err := os.Stat(c.held); err != nil {
				t.Errorf("what is open: %v", err)
			}

			time.AfterFunc(100*time.Millisecond, func() { _ = windows.CloseHandle(handle) })
			if err := c.act(); err != nil {
				t.Errorf("when it is closed meanwhile: %v", err)
			}
			if _, err := os.Stat(tree); !os.IsNotExist(err) {
				t.Errorf("the folder is still there: %v", err)
			}
		})
	}
}

// makeAndHold makes a folder with a file below, and opens one of both as a program that shares reading only.
func makeAndHold(t *testing.T, tree, held string) windows.Handle {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(tree, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "below", "held"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	name, err := windows.UTF16PtrFromString(held)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := windows.CreateFile(name, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

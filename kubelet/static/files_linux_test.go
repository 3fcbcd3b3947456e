package static

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPipeIsNoManifest: nobody waits for the other end of a named pipe that takes the place of a manifest.
func TestPipeIsNoManifest(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pod.yaml")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := (&Files{Path: pipe}).readFile(pipe)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("it was read")
		}
	case <-time.After(2 * time.Second):
		t.Error("it is waited for")
	}
}

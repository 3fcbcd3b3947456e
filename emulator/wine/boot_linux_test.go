package wine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestBootThatHangs lets wineboot and a program that it started hang, which keeps its output open: boot ends in time,
// says so, and leaves neither.
func TestBootThatHangs(t *testing.T) {
	dir := t.TempDir()
	loader := filepath.Join(dir, "wine64")
	if err := os.WriteFile(loader, []byte("#!/bin/sh\nsetsid sleep 60 &\nsleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tools, p := Tools{Loader: loader, Server: "/bin/true"}, Prefix{Dir: filepath.Join(dir, "prefix")}
	begin := time.Now()
	err := tools.boot(context.Background(), p, 200*time.Millisecond)
	if !errors.Is(err, errBootHangs) || time.Since(begin) > 30*time.Second {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	if left, err := p.Processes(); err != nil || len(left) > 0 {
		t.Errorf("processes left: %v, %v", left, err)
	}
}

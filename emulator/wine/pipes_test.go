//go:build linux

package wine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPipeProblem makes templates with a Wine whose pipes work, with one whose pipes do not, and without the check.
func TestPipeProblem(t *testing.T) {
	p := Prefix{Dir: t.TempDir()}
	if why := p.PipeProblem(); !strings.Contains(why, "porthole down --purge") {
		t.Errorf("a template that was never checked: %q", why)
	}
	for script, want := range map[string]string{
		"exit 0": "",
		"echo 'porthole-pipe: connecting to a pipe (error 5)' >&2; exit 1": "exit status 1: porthole-pipe: connecting to a pipe (error 5)",
	} {
		loader := filepath.Join(t.TempDir(), "wine64")
		if err := os.WriteFile(loader, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(p.DriveC(), 0o755); err != nil {
			t.Fatal(err)
		}

		tools := Tools{Loader: loader, Server: "/bin/true"}
		if err := tools.checkPipes(context.Background(), p); err != nil {
			t.Fatal(err)
		}
		if why := p.PipeProblem(); want == "" && why != "" || !strings.HasSuffix(why, want) {
			t.Errorf("%s: %q, want %q", script, why, want)
		}
	}
}

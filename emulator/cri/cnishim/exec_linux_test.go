package cnishim

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/wine"
)

// TestSilentPlugin lets a plugin fail without a word, with an answer, and with words on standard error only: DEL, and no other command, is
// tried once more if there was no answer, and the last error says what was seen.
func TestSilentPlugin(t *testing.T) {
	for _, tc := range []struct {
		name, command, first, second string // what a shell does in place of the plugin
		runs                         int
		want                         string // part of the error; empty: success
	}{
		{"DEL fails once", "DEL", "exit 1", "exit 0", 2, ""},
		{"DEL fails twice", "DEL", "exit 1", "exit 1", 2, "exit status 1, without an answer"},
		{"Wine says why", "DEL", "echo 0024:err:virtual:map >&2; exit 1", "echo 0024:err:virtual:map >&2; exit 1", 2, "(0024:err:virtual:map), without an answer"},
		{"DEL answers", "DEL", `echo '{"code":7}'; exit 1`, "exit 0", 1, `exit status 1: {"code":7}`},
		{"ADD", "ADD", "exit 1", "exit 0", 1, "exit status 1, without an answer"},
		{"success says nothing", "DEL", "exit 0", "exit 1", 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			count := filepath.Join(dir, "count")
			loader := filepath.Join(dir, "wine64")
			script := "#!/bin/sh\necho run >> " + count + "\nif [ $(wc -l < " + count + ") = 1 ]; then " + tc.first + "; fi\n" + tc.second + "\n"
			if err := os.WriteFile(loader, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			exe := filepath.Join(dir, "prefix", "drive_c", "opt", "cni", "bin", "p.exe")
			if err := os.MkdirAll(filepath.Dir(exe), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(exe, nil, 0o644); err != nil {
				t.Fatal(err)
			}

			installed := wine.Debian
			wine.Debian = wine.Tools{Loader: loader, Server: "/bin/true"}
			defer func() { wine.Debian = installed }()
			_, err := Call{HostDir: dir, Env: map[string]string{"CNI_COMMAND": tc.command}, Timeout: time.Minute}.exec(context.Background(), plugin{kind: "p"}, "", nil)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			runs, err := os.ReadFile(count)
			if err != nil || strings.Count(string(runs), "\n") != tc.runs {
				t.Errorf("it ran %q times (%v), want %d", runs, err, tc.runs)
			}
		})
	}
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDocuments(t *testing.T) {
	for _, c := range []struct {
		name, line, want string
	}{
		{"a file and a folder", "see [`a/a.go`](a/a.go#L1) and `a/`", ""},
		{"a picture", "![a box](a/a.svg)", ""},
		{"elsewhere", "[x](https://example.org/b.go), [y](#part), `/healthz`, `D/run/x.json`, `a.b`", ""},
		{"a link to nothing", "see [it](a/b.go)", "there is no file a/b.go"},
		{"a picture that is not there", "![a box](a/b.svg)", "there is no file a/b.svg"},
		{"a picture without text", "![ ](a/a.svg)", "the picture a/a.svg has no text"},
		{"a path to nothing", "| x | `b/` |", "there is no file b/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.Mkdir(filepath.Join(root, "a"), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"a/a.go": "package a\n", "a/a.svg": "<svg/>",
				architecture: "# A\n" + c.line + "\n"} {
				if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}

			var out bytes.Buffer
			ok, err := run(&out, root, options{})
			if err != nil || ok != (c.want == "") {
				t.Fatalf("run: %t, %v, want %q; it said %q", ok, err, c.want, out.String())
			}
			if want := fmt.Sprintf("%s:2: %s", architecture, c.want); c.want != "" &&
				!strings.HasPrefix(out.String(), want) {
				t.Errorf("it said %q, want %q", out.String(), want)
			}
		})
	}
}

package path

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{"{}": "it has no name", "x": "invalid character",
		`{"name": 1}`: "cannot unmarshal"} {
		file := filepath.Join(t.TempDir(), "facts.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := read([]string{file})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", text, err, want)
		}
	}
}

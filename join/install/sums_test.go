package install

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckSums: programs that the sums of an archive do not name, or name otherwise, are refused.
func TestCheckSums(t *testing.T) {
	names := []string{"porthole", "porthole-routes", "cni/win-bridge.exe"}
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	right := sum("a") + "  porthole\n" + sum("b") + " *./cni/win-bridge.exe\n"
	for name, c := range map[string]struct {
		sums, want string
		missing    bool // errors.Is(err, ErrNoSums)
	}{
		"all are right":    {right, "", false},
		"none":             {"", "has no SHA256SUMS", true},
		"one is not named": {sum("a") + "  porthole\n", "win-bridge.exe is not in SHA256SUMS", true},
		"one is another": {strings.Replace(right, sum("a"), sum("x"), 1),
			"porthole is damaged: its SHA-256 is " + sum("a"), false},
		"no line of a sum": {"nonsense\n", "is no line of sha256sum", false},
		"in capital letters": {strings.ToUpper(sum("a")) + "  porthole\n" + sum("b") + "  cni/win-bridge.exe\n", "",
			false},
	} {
		dir := t.TempDir()
		for path, text := range map[string]string{"porthole": "a", "cni/win-bridge.exe": "b", SumsFile: c.sums} {
			if text == "" {
				continue
			}
			path = filepath.Join(dir, path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
				os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}

		err := CheckSums(dir, names)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			errors.Is(err, ErrNoSums) != c.missing {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

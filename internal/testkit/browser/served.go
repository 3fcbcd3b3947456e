package browser

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
)

// Served starts a command that serves a page, such as `porthole web`, and returns the link that it prints. The command
// is killed when the test ends.
func Served(t *testing.T, cmd *exec.Cmd) (link string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})

	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http://127.0.0.1:") {
			return text
		}
	}
	t.Fatalf("%s ended without a link", cmd)
	return ""
}

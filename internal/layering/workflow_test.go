package layering

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestWorkflowsArePinned: a workflow names each action by its commit, and checks what it downloads.
func TestWorkflowsArePinned(t *testing.T) {
	data, err := os.ReadFile("../../.github/workflows/test.yml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	pinned := regexp.MustCompile(`^\s*(?:- )?uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v[0-9.]+$`)
	for line := range strings.Lines(text) {
		if strings.Contains(line, "uses:") && !pinned.MatchString(strings.TrimRight(line, "\n")) {
			t.Errorf("%q is not pinned by a commit", strings.TrimSpace(line))
		}
		if strings.Contains(line, "git clone") || strings.Contains(line, "curl") && strings.Contains(line, "|") {
			t.Errorf("%q runs what nobody checked", strings.TrimSpace(line))
		}
	}
	if strings.Contains(text, "curl") && !strings.Contains(text, "sha256sum -c") {
		t.Error("a download has no checksum")
	}
}

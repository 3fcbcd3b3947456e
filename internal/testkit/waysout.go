package testkit

import (
	"fmt"
	"strings"
	"testing"
)

// fewestWays is how many ways out emulator/hcsd/serve/testdata/escape must have tried.
const fewestWays = 40

// NoWayOut fails the test unless out, which emulator/hcsd/serve/testdata/escape printed, says that it has tried its
// ways and found each closed.
func NoWayOut(t *testing.T, out string) {
	t.Helper()
	tried := 0
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, ": out") {
			t.Error("a way out: " + strings.TrimSuffix(line, ": out"))
		}
		_, _ = fmt.Sscanf(line, "tried %d", &tried) // other lines say something else
	}
	if tried < fewestWays {
		t.Errorf("%d ways were tried, want at least %d:\n%s", tried, fewestWays, out)
	}
}

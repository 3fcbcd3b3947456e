package serve

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestHCNDocument: docs/evidence/hcn-tests.md says of each build how many tests pass and which fail, as TestHCNSuite
// wants it.
func TestHCNDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/evidence/hcn-tests.md")
	if err != nil {
		t.Fatal(err)
	}
	builds := map[string][]string{} // that fail, by test
	var counts []string
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, " | ")
		switch {
		case strings.HasPrefix(line, "| Test") && len(cells) == 4:
			builds[strings.TrimPrefix(cells[0], "| ")] = strings.Split(cells[2], ", ")
		case strings.Contains(line, "(Server ") && len(cells) == 4:
			counts = append(counts, strings.Fields(cells[0])[1]+" "+cells[2]+" "+strings.TrimSuffix(cells[3], " |"))
		}
	}

	for build, failed := range hcnSuiteFailures {
		want := fmt.Sprintf("%d %d %d", build, hcnSuiteTests-len(failed), len(failed))
		if !slices.Contains(counts, want) {
			t.Errorf("the table has %q, want %q", counts, want)
		}
		for name, fails := range builds {
			if slices.Contains(failed, name) != slices.Contains(fails, fmt.Sprint(build)) {
				t.Errorf("%s fails on %q by the document, and %q fail on %d", name, fails, failed, build)
			}
		}
		for _, name := range failed {
			if builds[name] == nil {
				t.Errorf("the document does not say why %s fails", name)
			}
		}
	}
}

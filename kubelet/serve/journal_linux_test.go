package serve

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestJournal: journalctl accepts the options that a query becomes. Whether it prints lines depends on the machine.
func TestJournal(t *testing.T) {
	if _, err := exec.LookPath(journalctl); err != nil {
		t.Skip("journalctl is not installed")
	}
	known, others := journaled(t.Context(), []string{"porthole-nothing"})
	if len(known) > 0 || !slices.Equal(others, []string{"porthole-nothing"}) {
		t.Errorf("a service that does not exist: %v, %v", known, others)
	}
	// It complains about options that it does not know; here it must not.
	q := &nodeLogQuery{services: []string{"porthole-nothing"}}
	lines := 3
	q.tail, q.pattern = &lines, "error|fail"
	var out bytes.Buffer
	if err := journal(t.Context(), q.journalArgs(q.services), &out); err != nil ||
		strings.Contains(out.String(), "unrecognized") || strings.Contains(out.String(), "Failed to parse") {
		t.Errorf("journalctl: %v %q", err, out.String())
	}
	if err := journal(t.Context(), []string{"--porthole"}, &out); err != nil ||
		!strings.Contains(out.String(), "unrecognized") {
		t.Errorf("a wrong option is not seen: %v %q", err, out.String())
	}
}

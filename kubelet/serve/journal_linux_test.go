package serve

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestJournal: journalctl takes the options that a query becomes. That it prints lines depends on the machine.
func TestJournal(t *testing.T) {
	if _, err := exec.LookPath(journalctl); err != nil {
		t.Skip("journalctl is not installed")
	}
	known, others := journaled(t.Context(), []string{"porthole-nothing"})
	if len(known) > 0 || !slices.Equal(others, []string{"porthole-nothing"}) {
		t.Errorf("a service that does not exist: %v, %v", known, others)
	}
	// What journalctl makes of the options is seen in what it says of one that it does not know: nothing.
	q := &nodeLogQuery{services: []string{"porthole-nothing"}}
	lines := 3
	q.tail, q.pattern = &lines, "error|fail"
	var out bytes.Buffer
	if err := journal(t.Context(), q.journalArgs(q.services), &out); err != nil || strings.Contains(out.String(), "unrecognized") || strings.Contains(out.String(), "Failed to parse") {
		t.Errorf("journalctl: %v %q", err, out.String())
	}
	if err := journal(t.Context(), []string{"--porthole"}, &out); err != nil || !strings.Contains(out.String(), "unrecognized") {
		t.Errorf("a wrong option is not seen: %v %q", err, out.String())
	}
}

package scm

import (
	"strings"
	"testing"
)

// TestEventLog: the event log stays readable and below a size, whatever programs of the host write to it.
func TestEventLog(t *testing.T) {
	dir := t.TempDir()
	l := &eventLog{dir: dir}
	l.add(Event{Log: "Application", Source: "s", Text: strings.Repeat("\x01", 8<<20)})
	l.add(Event{Log: "Application", Source: strings.Repeat("\x01", 8<<20), Text: "é" + strings.Repeat("é", maxText)})
	events, err := ReadEvents(dir)
	if err != nil || len(events) != 2 || len(events[0].Text) != maxText || len(events[1].Source) != maxText ||
		!strings.HasSuffix(events[1].Text, "éé") {
		t.Fatalf("%d entries, %v", len(events), err)
	}

	text := strings.Repeat("x", maxText)
	const more = 3 * maxFile / maxText
	for range more {
		l.add(Event{Log: "Application", Text: text})
	}
	l.add(Event{Log: "Application", Text: "the last"})
	events, err = ReadEvents(dir)
	if err != nil || len(events) < maxFile/(2*maxText) || len(events) > more*5/6 ||
		events[len(events)-1].Text != "the last" {
		t.Errorf("%d entries of %d, %v", len(events), more+3, err)
	}
}

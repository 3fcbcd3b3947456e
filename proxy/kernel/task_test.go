package kernel

import (
	"fmt"
	"testing"
)

// TestTransitions: the table in the comment of phase, written a second time. Every other trigger is refused and
// changes nothing.
func TestTransitions(t *testing.T) {
	names := map[trigger]string{enqueue: "enqueue", wait: "wait", resume: "resume", dequeue: "dequeue", start: "start",
		change: "change", answer: "answer"}
	legal := map[phase]map[trigger]phase{
		idle:     {enqueue: queued, wait: waiting, start: running},
		waiting:  {enqueue: queued, wait: waiting, resume: idle},
		queued:   {dequeue: idle},
		running:  {change: outdated, answer: idle},
		outdated: {change: outdated, answer: idle},
	}
	if len(names) != triggers || len(legal) != phases {
		t.Fatalf("%d triggers of %d, %d phases of %d", len(names), triggers, len(legal), phases)
	}

	for from := range phase(phases) {
		for what := range trigger(triggers) {
			t.Run(fmt.Sprintf("%d %s", from, names[what]), func(t *testing.T) {
				work := task{phase: from}
				next, allowed := legal[from][what]
				if !allowed {
					next = from
				}
				if got := work.take(what); got != allowed || work.phase != next {
					t.Errorf("taken: %v, phase %d; want %v, phase %d", got, work.phase, allowed, next)
				}
			})
		}
	}
}

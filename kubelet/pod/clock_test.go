package pod

import (
	"testing"
	"time"
)

// TestClockSetBack: a container that ended at a time that lies ahead starts again at once, be it its first restart or
// a later one. It does not wait until the clock has caught up.
func TestClockSetBack(t *testing.T) {
	for _, before := range []Backoff{{}, {Delay: 20 * time.Second, At: now.Add(time.Hour - time.Minute)}} {
		s := fresh(sandbox, image, exited("c", 1, 1))
		s.runtime.Containers[0].FinishedAt = now.Add(time.Hour)
		if before.Delay > 0 {
			s.backoffs["c"] = before
		}
		plan := Reconcile(s, Node{}, now)
		if len(plan.Actions) != 1 || plan.Actions[0].Kind != StartContainer || plan.Actions[0].Attempt != 2 {
			t.Errorf("after back-off %v: %s, wake-up %v", before, plan.Dump(), plan.NextWake)
		}
	}
}

// TestClockSetForward: a restart that was an hour away by the clock is due when the clock says so; nothing else
// happens.
func TestClockSetForward(t *testing.T) {
	s := fresh(sandbox, image, exited("c", 1, 1))
	s.backoffs["c"] = Backoff{Delay: 5 * time.Minute, At: now.Add(-time.Minute)}
	if plan := Reconcile(s, Node{}, now); len(plan.Actions) != 0 || plan.NextWake.IsZero() {
		t.Fatalf("in back-off: %s, wake-up %v", plan.Dump(), plan.NextWake)
	}
	if plan := Reconcile(s, Node{}, now.Add(time.Hour)); len(plan.Actions) != 1 ||
		plan.Actions[0].Kind != StartContainer {
		t.Errorf("an hour later: %s", plan.Dump())
	}
	steady := fresh(sandbox, image, running("c"))
	if plan := Reconcile(steady, Node{}, now.Add(24*time.Hour)); len(plan.Actions) != 0 {
		t.Errorf("a container that runs: %s", plan.Dump())
	}
}

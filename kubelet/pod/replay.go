package pod

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Step is one plan of a log, and what is planned at the same point when the log is played again.
type Step struct {
	At                 time.Time
	Recorded, Replayed string // Plan.Describe
}

// Same reports whether the plan is the recorded one.
func (s Step) Same() bool { return s.Recorded == s.Replayed }

// maxLine bounds one entry, in bytes.
const maxLine = 4 << 20

// Replay plays a log of facts again, and returns one Step for each plan in it. A log whose beginning was dropped
// cannot be played.
func Replay(r io.Reader) (steps []Step, err error) {
	s, plan := NewState(), Plan{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)

	for n := 1; lines.Scan(); n++ {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return steps, fmt.Errorf("line %d: %w", n, err)
		}

		switch {
		case e.Type == DroppedEntry:
			return steps, fmt.Errorf("line %d: %d entries were dropped here, so that the log cannot be played again", n,
				e.Count)
		case e.Type == PlanEntry && e.Node != nil:
			plan = Reconcile(s, *e.Node, e.At)
			steps = append(steps, Step{At: e.At, Recorded: e.Plan, Replayed: plan.Describe(e.At)})
			continue
		}

		f, err := e.decode()
		if err != nil {
			return steps, fmt.Errorf("line %d: %w", n, err)
		}
		if _, ok := f.(Published); ok {
			f = Published{Status: plan.Status}
		}
		s.Take(f, e.At)
	}

	if err := lines.Err(); err != nil {
		return steps, fmt.Errorf("reading the log: %w", err)
	}
	return steps, nil
}

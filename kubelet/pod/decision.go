package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// decision is one pass over a pod: what the node contributes, the time, and the plan that grows meanwhile.
type decision struct {
	node Node
	now  time.Time
	plan *Plan
}

// want is a container that should be started as soon as its volumes, its image and the sandbox are there.
type want struct {
	c       *v1.Container
	attempt uint32
	backoff *Backoff
}

// whenDue calls do, unless the last failure asks to wait; then it plans the wake-up.
func whenDue(fail *Failure, now time.Time, p *Plan, do func()) {
	if fail != nil && now.Before(fail.RetryAt) {
		p.wake(fail.RetryAt)
		return
	}
	do()
}

// do adds an action to the plan, unless one with its key is in flight.
func (p *Plan) do(s *State, a Action) bool {
	if s.busy(a.Key) {
		return false
	}
	p.Actions = append(p.Actions, a)
	return true
}

// wake plans a wake-up at that time, unless an earlier one is planned; zero plans none.
func (p *Plan) wake(at time.Time) {
	if !at.IsZero() && (p.NextWake.IsZero() || at.Before(p.NextWake)) {
		p.NextWake = at
	}
}

package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Stop is a decision of the node to end a pod, for example because it was refused.
type Stop struct {
	Reason, Message string
	Phase           v1.PodPhase
	// Grace bounds the time that containers get; nil means the pod's own.
	Grace *time.Duration
	// Rejected marks a pod that was never admitted: nothing of it runs.
	Rejected bool
	// Conditions are added to the status together with the terminal phase.
	Conditions []v1.PodCondition
}

// endState is how far the end of a pod is. It goes one way: the pod begins to stop, what it holds of the node is gone,
// the node takes back the space of its containers.
type endState struct {
	// stop is why the pod must end for a reason of the node's own; nil for none.
	stop *Stop
	// since is when the pod began to stop; zero while it runs.
	since time.Time
	// cleaned is set when volumes, folders and the cgroup are gone; reclaimed when the node needs the space of the
	// containers too.
	cleaned, reclaimed bool
}

func (e *endState) begun() bool { return !e.since.IsZero() }

func (e *endState) begin(now time.Time) {
	if !e.begun() {
		e.since = now
	}
}

// reclaim marks the containers of a pod that has ended for removal.
func (e *endState) reclaim() { e.reclaimed = e.cleaned }

// terminal reports whether a phase is one that a pod never leaves.
func terminal(phase v1.PodPhase) bool { return phase == v1.PodFailed || phase == v1.PodSucceeded }

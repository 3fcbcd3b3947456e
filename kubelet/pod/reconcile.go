package pod

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Reconcile decides what to do about one pod now. It changes nothing. Of a pod that is Undecided, or that was not read
// in the runtime yet, it plans nothing.
func Reconcile(s *State, n Node, now time.Time) Plan {
	p := &Plan{}
	d := &decision{node: n, now: now, plan: p}
	if s.Undecided() {
		return *p
	}
	if !s.runtime.read() { // unknown is not absent
		p.Status = makeStatus(s, d, v1.PodPending)
		return *p
	}

	stop := stopCause(s, d)
	failedInit := s.pod != nil && initFailed(s)
	if stop == nil && !failedInit {
		planRun(s, d)
	}

	phase := computePhase(s, stop != nil, failedInit)
	if stop == nil && terminal(phase) {
		// All containers ended by themselves: what was planned for a running pod no longer applies.
		p.Actions, p.Events = nil, nil
		stop = &Stop{Phase: phase}
	}

	if stop != nil {
		p.Stopping = true
		planEnd(s, d, stop)
		phase = endPhase(s, stop, phase, p.Stopped)
	}

	runHooks(s, d)

	p.Status = makeStatus(s, d, phase)
	if stop != nil && terminal(phase) {
		applyStop(&p.Status, s, stop, now)
	}
	if p.Stopped && s.pod != nil && s.pod.DeletionTimestamp != nil && s.ending.cleaned {
		p.Delete = true
	}
	if s.pod != nil {
		resizeEvents(s, p)
	}

	p.Events = append(slices.Clone(s.events), p.Events...)
	p.Cancel = unwantedActions(s, p.Stopping)
	return *p
}

// runHooks plans the postStart hooks of containers that were just started, also of a pod that ends.
func runHooks(s *State, d *decision) {
	for _, name := range slices.Sorted(slices.Values(s.waitingHooks())) {
		d.do(s.tasks, Action{Kind: RunHook, Key: hookKey(name), Name: name, ID: s.hooks[name].ContainerID})
	}
}

// unwantedActions returns the keys of actions in flight whose outcome is no longer needed: in a pod that ends, images
// and volumes (calls to the runtime always run to their end), and the hooks of containers that have ended.
func unwantedActions(s *State, stopping bool) (keys []string) {
	keys = s.hooks.idle(s.runtime.Runtime, s.tasks)
	if stopping {
		keys = append(keys, s.tasks.preparing()...)
	}
	slices.Sort(keys)
	return keys
}

const deadlineReason = "DeadlineExceeded"

// stopCause returns why the pod must end, or nil. A deadline in the future is no cause; run plans a wake-up for it.
func stopCause(s *State, d *decision) *Stop {
	switch {
	case s.pod == nil:
		grace := time.Second
		return &Stop{Grace: &grace}
	case s.ending.stop != nil:
		return s.ending.stop
	case s.pod.DeletionTimestamp != nil, s.source.gone:
		return &Stop{}
	case terminal(s.pod.Status.Phase):
		return &Stop{Phase: s.pod.Status.Phase, Reason: s.pod.Status.Reason, Message: s.pod.Status.Message}
	case s.last != nil && terminal(s.last.Phase):
		return &Stop{Phase: s.last.Phase, Reason: s.last.Reason, Message: s.last.Message}
	}

	if at := podDeadline(s); !at.IsZero() && !d.now.Before(at) {
		stop := &Stop{Phase: v1.PodFailed, Reason: deadlineReason,
			Message: "Pod was active on the node longer than the specified deadline"}
		d.plan.Events = append(d.plan.Events,
			Event{Key: "deadline", Type: v1.EventTypeNormal, Reason: stop.Reason, Message: stop.Message})
		return stop
	}

	if s.ending.begun() { // the pod has begun to stop; the reason may no longer be visible
		return &Stop{}
	}
	return nil
}

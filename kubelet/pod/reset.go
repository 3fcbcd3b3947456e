package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// A reset is the restart of all containers of a pod, init containers too, because one of them has ended by a rule of
// the action RestartAllContainers. The container that has ended, the trigger, stays in the runtime until the next
// trigger, and what was planned before its end was known is of before: each container keeps which trigger that was.
// That is stopped without a grace period, as upstream's kubelet does, and when nothing of it runs any more the pod
// starts from the beginning in its sandbox. Upstream removes the containers; here they stay, so that restart counts,
// logs and last states are those of any restart.

// resetTrigger returns the container whose end reset the pod last, or nil.
func resetTrigger(s *State) *observed.Container {
	if s.pod == nil || !s.runtime.read() || !desired.MayReset(s.pod) {
		return nil
	}
	var last *observed.Container
	for cur := range s.runtime.All() {
		if cur.State != observed.Exited || last != nil && !cur.FinishedAt.After(last.FinishedAt) ||
			desired.IsEphemeral(s.pod, cur.Name) {
			continue
		}
		if c := desired.Find(s.pod, cur.Name); c != nil &&
			desired.RuledAction(c, cur.ExitCode) == v1.ContainerRestartRuleActionRestartAllContainers {
			last = cur
		}
	}
	return last
}

// lastReset returns when the trigger of the pod's last reset ended, or the zero time; nil for a pod that cannot be
// reset.
func lastReset(s *State) *time.Time {
	if !desired.MayReset(s.pod) {
		return nil
	}
	at := time.Time{}
	if t := resetTrigger(s); t != nil {
		at = t.FinishedAt
	}
	return &at
}

// isStale reports whether a container is of before the last reset of the pod: it was made before the trigger's end, or
// afterwards by a plan that did not know of it yet.
func isStale(s *State, cur *observed.Container) bool {
	t := resetTrigger(s)
	if t == nil || cur == nil || desired.IsEphemeral(s.pod, cur.Name) {
		return false
	}
	if cur.Reset == nil || cur.ID == t.ID {
		return cur.ID == t.ID || !cur.CreatedAt.After(t.FinishedAt)
	}
	return cur.Reset.Before(t.FinishedAt)
}

// inReset reports whether a container of the pod was not made anew yet since the last reset.
func inReset(s *State) bool {
	if resetTrigger(s) == nil {
		return false
	}
	for c := range desired.Containers(s.pod) {
		if isStale(s, s.runtime.Newest(c.Name)) {
			return true
		}
	}
	return false
}

// resetCondition tells of a reset, in upstream's words (pkg/kubelet/status/generate.go of 1.36.3). Only pods that can
// be reset have it.
func resetCondition(s *State, phase v1.PodPhase) v1.PodCondition {
	c := v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionFalse}
	switch {
	case phase == v1.PodSucceeded:
		c.Reason = "PodCompleted"
	case phase == v1.PodFailed:
		c.Reason = "PodFailed"
	case inReset(s):
		c.Status, c.Reason, c.Message = v1.ConditionTrue, "RestartAllContainersStarted",
			"container exited with restart policy rule"
	}
	return c
}

// resetWaiting is the status of a container of before a reset that waits for its restart, in upstream's words.
func resetWaiting() *v1.ContainerStateWaiting {
	return &v1.ContainerStateWaiting{Reason: "RestartingAllContainers",
		Message: "The container is removed because RestartAllContainers in place"}
}

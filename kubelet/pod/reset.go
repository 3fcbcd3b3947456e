package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// A reset is the restart of all containers of a pod, init containers too, because one of them has ended by a rule of
// the action RestartAllContainers. The container that has ended, the trigger, stays in the runtime until the next
// trigger, and what was planned before its end was known is of before: each container keeps which trigger that was.
// That is stopped without a grace period, as upstream's kubelet does, and when nothing of it runs any more the pod
// starts from the beginning in its sandbox. Upstream removes the containers; here they stay, so that restart counts,
// logs and last states are those of any restart.

// mayReset reports whether a container of the pod has a rule that restarts all.
func mayReset(p *v1.Pod) bool {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			for _, r := range list[i].RestartPolicyRules {
				if r.Action == v1.ContainerRestartRuleActionRestartAllContainers {
					return true
				}
			}
		}
	}
	return false
}

// trigger returns the container whose end reset the pod last, or nil.
func trigger(s *State) *Container {
	if s.pod == nil || s.runtime == nil || !mayReset(s.pod) {
		return nil
	}
	var last *Container
	for i := range s.runtime.Containers {
		cur := &s.runtime.Containers[i]
		if cur.State != Exited || last != nil && !cur.FinishedAt.After(last.FinishedAt) ||
			isEphemeral(s.pod, cur.Name) {
			continue
		}
		if c := FindContainer(s.pod, cur.Name); c != nil &&
			ruledAction(c, cur.ExitCode) == v1.ContainerRestartRuleActionRestartAllContainers {
			last = cur
		}
	}
	return last
}

// lastReset returns when the trigger of the pod's last reset ended, or the zero time; nil for a pod that cannot be
// reset.
func lastReset(s *State) *time.Time {
	if !mayReset(s.pod) {
		return nil
	}
	at := time.Time{}
	if t := trigger(s); t != nil {
		at = t.FinishedAt
	}
	return &at
}

// stale reports whether a container is of before the last reset of the pod: it was made before the trigger's end, or
// afterwards by a plan that did not know of it yet.
func stale(s *State, cur *Container) bool {
	t := trigger(s)
	if t == nil || cur == nil || isEphemeral(s.pod, cur.Name) {
		return false
	}
	if cur.Reset == nil || cur.ID == t.ID {
		return cur.ID == t.ID || !cur.CreatedAt.After(t.FinishedAt)
	}
	return cur.Reset.Before(t.FinishedAt)
}

// unmade returns the app containers that have never been started, when another app container of the pod has already
// ended by a rule of RestartAllContainers. That can happen because containers are started one after the other. They
// are started first, and then restarted with all others, so that their restart counts are 1: upstream starts all app
// containers in one pass (SyncPod in pkg/kubelet/kuberuntime of 1.36.3) and restarts them afterwards. A container
// whose image is not there, or whose start fails, is not waited for.
func unmade(s *State, d *decision) (next []want) {
	t := trigger(s)
	if t == nil || isInit(s.pod, t.Name) {
		return nil
	}
	for _, list := range [][]v1.Container{s.pod.Spec.InitContainers, s.pod.Spec.Containers} {
		for i := range list {
			if cur, _ := s.runtime.latest(list[i].Name); cur != nil && !stale(s, cur) { // the reset has begun
				return nil
			}
		}
	}

	for i := range s.pod.Spec.Containers {
		c := &s.pod.Spec.Containers[i]
		if cur, _ := s.runtime.latest(c.Name); cur != nil || s.images[c.Name].Ref == "" || s.failures[c.Name] != nil {
			continue
		}
		if w := restart(s, c, nil, d); w != nil {
			next = append(next, *w)
		}
	}
	return next
}

// resetting reports whether a container of the pod was not made anew yet since the last reset.
func resetting(s *State) bool {
	if trigger(s) == nil {
		return false
	}
	for _, list := range [][]v1.Container{s.pod.Spec.InitContainers, s.pod.Spec.Containers} {
		for i := range list {
			if cur, _ := s.runtime.latest(list[i].Name); stale(s, cur) {
				return true
			}
		}
	}
	return false
}

// stopStale plans to stop the containers of before the last reset. It reports whether one still runs. A trigger of the
// future, after the clock was set back, stops nothing: what is made meanwhile would seem to be of before it.
func stopStale(s *State, d *decision) (running bool) {
	t := trigger(s)
	if t == nil || t.FinishedAt.After(d.now) {
		return false
	}
	for i := len(s.runtime.Containers) - 1; i >= 0; i-- {
		cur := &s.runtime.Containers[i]
		if cur.State != Exited && stale(s, cur) && FindContainer(s.pod, cur.Name) != nil {
			running = running || cur.State == Running
			if cur.State == Running {
				stopContainer(s, d.plan, cur, d.now,
					ending{message: "Container " + t.Name + " has ended, all containers are restarted"})
			}
		}
	}
	return running
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
	case resetting(s):
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

package pod

import (
	v1 "k8s.io/api/core/v1"
)

// A reset is the restart of all containers of a pod, init containers too, because one of them has ended by a rule of the action
// RestartAllContainers. Nothing is kept about it: the container that has ended, the trigger, stays in the runtime until the next
// trigger, and what was made before its end is of before. That is stopped without a grace period, as upstream's kubelet does, and when
// nothing of it runs any more the pod starts from the beginning in its sandbox. Upstream removes the containers; here they stay, so that
// restart counts, logs and last states are those of any restart.

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
		if cur.State != Exited || last != nil && !cur.FinishedAt.After(last.FinishedAt) || isEphemeral(s.pod, cur.Name) {
			continue
		}
		if c := FindContainer(s.pod, cur.Name); c != nil && ruledAction(c, cur.ExitCode) == v1.ContainerRestartRuleActionRestartAllContainers {
			last = cur
		}
	}
	return last
}

// stale reports whether a container is of before the last reset of the pod.
func stale(s *State, cur *Container) bool {
	t := trigger(s)
	return t != nil && cur != nil && !isEphemeral(s.pod, cur.Name) && (cur.ID == t.ID || !cur.CreatedAt.After(t.FinishedAt))
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

// stopStale plans to stop the containers of before the last reset. It reports whether one still runs. A trigger of the future, after
// the clock was set back, stops nothing: what is made meanwhile would seem to be of before it.
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
				stopContainer(s, d.plan, cur, d.now, ending{0, "Container " + t.Name + " has ended, all containers are restarted"})
			}
		}
	}
	return running
}

// resetCondition tells of a reset, in upstream's words (pkg/kubelet/status/generate.go of 1.36.3). Only pods that can be reset have it.
func resetCondition(s *State, phase v1.PodPhase) v1.PodCondition {
	c := v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionFalse}
	switch {
	case phase == v1.PodSucceeded:
		c.Reason = "PodCompleted"
	case phase == v1.PodFailed:
		c.Reason = "PodFailed"
	case resetting(s):
		c.Status, c.Reason, c.Message = v1.ConditionTrue, "RestartAllContainersStarted", "container exited with restart policy rule"
	}
	return c
}

// resetWaiting is the status of a container of before a reset that waits for its restart, in upstream's words.
func resetWaiting() *v1.ContainerStateWaiting {
	return &v1.ContainerStateWaiting{Reason: "RestartingAllContainers", Message: "The container is removed because RestartAllContainers in place"}
}

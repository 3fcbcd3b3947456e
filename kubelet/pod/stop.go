package pod

import (
	"fmt"
	"time"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// gracePeriod returns how long a container of the pod may take to end.
func gracePeriod(s *State) time.Duration {
	g := 30 * time.Second
	if s.pod == nil {
		return time.Second
	}
	if t := s.pod.Spec.TerminationGracePeriodSeconds; t != nil {
		g = time.Duration(*t) * time.Second
	}
	if t := s.pod.DeletionGracePeriodSeconds; t != nil && s.pod.DeletionTimestamp != nil {
		g = time.Duration(*t) * time.Second
	}
	if s.ending.stop != nil && s.ending.stop.Grace != nil {
		g = min(g, *s.ending.stop.Grace)
	}
	return max(g, time.Second)
}

// stopOrder is how a container is stopped: the time that it gets, when the grace period of the pod is over, and the
// text of the event.
type stopOrder struct {
	left    time.Duration
	over    time.Time
	message string
}

// of returns how a container of a pod that ends is stopped.
func (o stopOrder) of(c *observed.Container) stopOrder {
	o.message = "Stopping container " + c.Name
	return o
}

// stopContainer plans to stop a container, or to stop it once more if it gets less time than at the last stop. A
// container that the plan stops already, for another reason, is not stopped twice.
func stopContainer(s *State, d *decision, c *observed.Container, o stopOrder) {
	key, deadline := stopKey(c.ID), d.now.Add(o.left)
	if n, before := s.tasks.stops(c.ID); n > 0 {
		if before.Sub(deadline) < 2*time.Second {
			return
		}
		key = fmt.Sprintf("%s/%d", key, n)
	}
	if d.plan.has(key) {
		return
	}
	d.try(s.tasks, Action{Kind: StopContainer, Key: key, ID: c.ID, Name: c.Name, Grace: o.left, Deadline: deadline,
		Message: o.message})
}

// stopSandbox plans to end a sandbox and take its network down.
func stopSandbox(s *State, d *decision, id string) {
	d.try(s.tasks, Action{Kind: StopSandbox, Key: stopSandboxKey(id), ID: id})
}

// removeContainer plans to remove a container that does not run.
func removeContainer(s *State, d *decision, c *observed.Container) {
	d.try(s.tasks, Action{Kind: RemoveContainer, Key: removeKey(c.ID), ID: c.ID, Name: c.Name})
}

package pod

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// runsAgain reports whether an exited container is to run again: by its rules and policy, because its definition
// changed, because the pod was reset, or because the container was stopped for a probe that failed. With which exit
// code it then ends does not matter.
func runsAgain(s *State, c *v1.Container, cur *observed.Container) bool {
	if cur == nil || cur.State != observed.Exited || cur.Changed(c) || desired.Restartable(s.pod, c, cur.ExitCode) {
		return true
	}
	return isStale(s, cur) || s.probes.failed(c, cur) && desired.Policy(s.pod, c) != v1.RestartPolicyNever
}

// nextInstance is a container that should be started as soon as its volumes, its image and the sandbox are there.
type nextInstance struct {
	c       *v1.Container
	attempt uint32
	backoff *Backoff
}

// restartAfter returns that c is to start after cur, or plans the wake-up at the end of its back-off and returns nil.
func restartAfter(s *State, c *v1.Container, cur *observed.Container, d *decision) *nextInstance {
	switch {
	case s.tasks.busy(startKey(c.Name)): // its back-off is already that of the next restart
		return nil
	case cur == nil:
		return &nextInstance{c: c, attempt: lostAttempts(s, c.Name, nil)}
	case cur.State == observed.Created: // made but never started, for example because the kubelet was killed in between
		removeContainer(s, d, cur)
		return nil
	}

	if t := resetTrigger(s); t != nil && cur.ID != t.ID && isStale(s, cur) { // it did not end by itself
		return &nextInstance{c: c, attempt: max(cur.Attempt+1, lostAttempts(s, c.Name, cur))}
	}

	at, entry := nextStart(backoffOf(s, c, cur, d.node), cur.FinishedAt, d.node)
	if cur.FinishedAt.After(d.now) { // the clock was set back since: the age of the exit is unknown
		at = d.now
	}

	if d.now.Before(at) {
		d.plan.wake(at)
		if fail := s.tasks.failures[c.Name]; fail != nil && d.now.Before(fail.RetryAt) {
			d.plan.wake(fail.RetryAt) // from then on the status shows the back-off in place of the failure
		}
		d.plan.Events = append(d.plan.Events,
			Event{Key: cur.ID, Type: v1.EventTypeWarning, Reason: "BackOff", Container: c.Name,
				Message: fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", c.Name, s.pod.Name,
					s.pod.Namespace, s.pod.UID)})
		return nil
	}

	entry.At = d.now
	return &nextInstance{c: c, attempt: max(cur.Attempt+1, lostAttempts(s, c.Name, cur)), backoff: &entry}
}

// lostAttempts returns the next attempt of a container whose newest instance the runtime has lost, for example in a
// reboot; 0 if it lost none. cur is the newest instance that the runtime still has, or nil.
func lostAttempts(s *State, name string, cur *observed.Container) uint32 {
	old := findStatus(s, name)
	if old != nil && old.ContainerID != "" && (cur == nil || uint32(old.RestartCount) > cur.Attempt) {
		return uint32(old.RestartCount) + 1
	}
	return 0
}

// backoffOf returns the back-off of a container. A kubelet that has just started derives it from the status that its
// predecessor published: only a container that was in back-off waits. A container with a changed definition begins
// without a back-off.
func backoffOf(s *State, c *v1.Container, cur *observed.Container, f Node) Backoff {
	if cur.Changed(c) {
		return Backoff{}
	}
	b, ok := s.backoffs[c.Name]
	old := findStatus(s, c.Name)
	if ok || cur.Attempt == 0 || old == nil || old.State.Waiting == nil ||
		old.State.Waiting.Reason != "CrashLoopBackOff" {
		return b
	}

	wait := retry.Backoff{First: orDefault(f.InitialBackoff, 10*time.Second),
		Max: orDefault(f.MaxBackoff, 300*time.Second)}
	return Backoff{Delay: wait.Wait(int(cur.Attempt)), At: cur.StartedAt}
}

func orDefault(d, other time.Duration) time.Duration {
	if d == 0 {
		return other
	}
	return d
}

// nextStart returns when a container that ended at finished may start again, and its back-off from then on. The first
// restart is immediate. After twice the largest back-off (ten minutes) without a restart, the back-off begins again.
func nextStart(b Backoff, finished time.Time, f Node) (time.Time, Backoff) {
	first, limit := orDefault(f.InitialBackoff, 10*time.Second), orDefault(f.MaxBackoff, 300*time.Second)
	if b.Delay == 0 || finished.Sub(b.At) > 2*limit {
		return finished, Backoff{Delay: min(first, limit)}
	}
	return finished.Add(b.Delay), Backoff{Delay: min(2*b.Delay, limit)}
}

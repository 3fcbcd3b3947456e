package pod

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/retry"
)

// restartable reports whether the policy lets an exited container run again. A changed definition always does.
func restartable(pod *v1.Pod, c *v1.Container, cur *Container) bool {
	if cur == nil || cur.State != Exited {
		return true
	}
	if changed(cur, c) {
		return true
	}

	if ruledAction(c, cur.ExitCode) != "" { // a rule that applies goes before the policy
		return true
	}

	switch policyOf(pod, c) {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return cur.ExitCode != 0
	}

	return true
}

func policyOf(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	return pod.Spec.RestartPolicy
}

// again reports whether an exited container is to run again, also because the pod was reset, or because the container
// was stopped for a probe that failed: with which exit code it then ends does not matter.
func again(s *State, c *v1.Container, cur *Container) bool {
	return restartable(s.pod, c, cur) || stale(s, cur) ||
		probeFailed(s, c, cur) && policyOf(s.pod, c) != v1.RestartPolicyNever
}

// appsEnd reports whether the pod is about to end by itself: each of its regular containers has ended for good, or is
// being stopped and will not run again. Its sidecars are then neither restarted nor stopped for a probe, as in a pod
// that is deleted. KEP-4438 wants them restarted in both cases; upstream's kubelet of 1.36.3 does not do that.
func appsEnd(s *State) bool {
	for i := range s.pod.Spec.Containers {
		c := &s.pod.Spec.Containers[i]
		cur, _ := s.runtime.latest(c.Name)
		switch {
		case cur == nil:
			return false
		case cur.State == Running:
			once := policyOf(s.pod, c) == v1.RestartPolicyNever && len(c.RestartPolicyRules) == 0 && !changed(cur, c)
			if !once || !s.busy(stopKey(cur.ID)) {
				return false
			}
		case again(s, c, cur):
			return false
		}
	}
	return true
}

// probeFailed reports whether the liveness or startup probe of a container instance has failed.
func probeFailed(s *State, c *v1.Container, cur *Container) bool {
	p := s.probes[c.Name]
	return cur != nil && p.ContainerID == cur.ID && p.Live != nil && !*p.Live
}

// ruledAction returns what the first rule that applies to the exit code asks for: a restart of the container, or of
// all. It is empty if no rule applies. A rule with an unknown action applies to none.
func ruledAction(c *v1.Container, code int32) v1.ContainerRestartRuleAction {
	for i := range c.RestartPolicyRules {
		r := &c.RestartPolicyRules[i]
		known := r.Action == v1.ContainerRestartRuleActionRestart ||
			r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		if known && applies(r, code) {
			return r.Action
		}
	}
	return ""
}

// applies reports whether a rule is about an exit code.
func applies(r *v1.ContainerRestartRule, code int32) bool {
	if r.ExitCodes == nil {
		return false
	}
	named := slices.Contains(r.ExitCodes.Values, code)
	switch r.ExitCodes.Operator {
	case v1.ContainerRestartRuleOnExitCodesOpIn:
		return named
	case v1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !named
	}
	return false
}

// restart returns that c is to start after cur, or plans the wake-up at the end of its back-off and returns nil.
func restart(s *State, c *v1.Container, cur *Container, d *decision) *want {
	switch {
	case s.busy(startKey(c.Name)): // its back-off is already that of the next restart
		return nil
	case cur == nil:
		return &want{c: c, attempt: lostAttempts(s, c.Name, nil)}
	case cur.State == Created: // made but never started, for example because the kubelet was killed in between
		whenDue(s.failures[RemoveKey], d.now, d.plan, func() {
			d.plan.do(s, Action{Kind: RemoveContainer, Key: removeKey(cur.ID), ID: cur.ID, Name: c.Name})
		})
		return nil
	}

	if t := trigger(s); t != nil && cur.ID != t.ID && stale(s, cur) { // it did not end by itself
		return &want{c: c, attempt: max(cur.Attempt+1, lostAttempts(s, c.Name, cur))}
	}

	at, entry := nextStart(backoffOf(s, c, cur, d.node), cur.FinishedAt, d.node)
	if cur.FinishedAt.After(d.now) { // the clock was set back since: the age of the exit is unknown
		at = d.now
	}

	if d.now.Before(at) {
		d.plan.wake(at)
		if fail := s.failures[c.Name]; fail != nil && d.now.Before(fail.RetryAt) {
			d.plan.wake(fail.RetryAt) // from then on the status shows the back-off in place of the failure
		}
		d.plan.Events = append(d.plan.Events,
			Event{Key: cur.ID, Type: v1.EventTypeWarning, Reason: "BackOff", Container: c.Name,
				Message: fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", c.Name, s.pod.Name,
					s.pod.Namespace, s.pod.UID)})
		return nil
	}

	entry.At = d.now
	return &want{c: c, attempt: max(cur.Attempt+1, lostAttempts(s, c.Name, cur)), backoff: &entry}
}

// lostAttempts returns the next attempt of a container whose newest instance the runtime has lost, for example in a
// reboot; 0 if it lost none. cur is the newest instance that the runtime still has, or nil.
func lostAttempts(s *State, name string, cur *Container) uint32 {
	old := findStatus(s, name)
	if old != nil && old.ContainerID != "" && (cur == nil || uint32(old.RestartCount) > cur.Attempt) {
		return uint32(old.RestartCount) + 1
	}
	return 0
}

// backoffOf returns the back-off of a container. A kubelet that has just started derives it from the status that its
// predecessor published: only a container that was in back-off waits. A container with a changed definition begins
// without a back-off.
func backoffOf(s *State, c *v1.Container, cur *Container, f Node) Backoff {
	if changed(cur, c) {
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

// Hash returns a hash of what a container must be restarted for if it changes: its name and image. It is upstream's,
// which the annotation io.kubernetes.container.hash holds: a node may change from one kubelet to the other, and its
// containers run on (pkg/kubelet/container, HashContainer, hashes how k8s.io/utils/dump prints a list of bytes; a test
// compares them).
func Hash(c *v1.Container) string {
	text, _ := json.Marshal(map[string]string{"name": c.Name, "image": c.Image}) // of texts: no error
	h := fnv.New32a()
	fmt.Fprintf(h, "([]uint8)%v", text)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// earlierHash is that of Porthole before its kubelet had upstream's. Containers that it started run on, too.
func earlierHash(c *v1.Container) string {
	text, _ := json.Marshal(struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	}{c.Name, c.Image})
	h := fnv.New32a()
	h.Write(text)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// changed reports whether a container was made from another definition.
func changed(cur *Container, c *v1.Container) bool {
	return cur.Hash != "" && cur.Hash != Hash(c) && cur.Hash != earlierHash(c)
}

package pod

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// grace returns how long a container of the pod may take to end.
func grace(s *State) time.Duration {
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
	if s.stop != nil && s.stop.Grace != nil {
		g = min(g, *s.stop.Grace)
	}
	return max(g, time.Second)
}

// removeNeverStarted plans to remove containers that were made but never started, and reports whether there are any. A
// kubelet that is killed between the two leaves them. A stop does not end them, and their waiting process would keep
// the pod's cgroup.
func removeNeverStarted(s *State, now time.Time, p *Plan) (found bool) {
	for _, c := range s.runtime.Containers {
		if c.State == Created {
			found = true
			whenDue(s.failures[RemoveKey], now, p, func() {
				p.do(s, Action{Kind: RemoveContainer, Key: removeKey(c.ID), ID: c.ID, Name: c.Name})
			})
		}
	}
	return found
}

// end plans the actions of a pod that must stop: its containers end first, then its sandboxes, then volumes and cgroup
// are given back, then sandboxes and containers are removed.
func end(s *State, stop *Stop, now time.Time, p *Plan) {
	since := s.stopSince
	if since.IsZero() {
		since = now
	}

	left := max(grace(s)-now.Sub(since), time.Second)
	if stop.Grace != nil {
		left = min(left, max(*stop.Grace, time.Second))
	}

	running := stopContainers(s, now, ending{left: left, over: since.Add(grace(s))}, p)
	if running || s.creating() {
		return
	}

	p.Stopped = true
	// A finished pod keeps its containers, for its logs, until it is deleted or the disk is full.
	kept := s.pod != nil && s.pod.DeletionTimestamp == nil && !s.gone && !s.cleanup.reclaimed
	for _, b := range s.runtime.Sandboxes {
		if b.Ready || kept && !s.stopped[b.ID] { // removing one takes its network down too
			stopSandbox(s, b.ID, now, p)
			running = true
		}
	}
	if running {
		return
	}

	if removeNeverStarted(s, now, p) {
		return
	}
	if !s.cleanup.done {
		whenDue(s.failures[CleanupKey], now, p, func() { p.do(s, Action{Kind: Cleanup, Key: CleanupKey}) })
		return
	}
	if kept {
		return
	}

	removeRest(s, now, p)
	if len(s.runtime.Sandboxes)+len(s.runtime.Containers) == 0 {
		p.Finished = s.pod == nil || s.gone
	}
}

// removeRest plans to remove the sandboxes, which removes their containers, and the containers that no sandbox is left
// of.
func removeRest(s *State, now time.Time, p *Plan) {
	for _, b := range s.runtime.Sandboxes {
		if s.busy(stopSandboxKey(b.ID)) { // its network is being taken down: a removal would do that a second time
			continue
		}
		whenDue(s.failures[RemoveKey], now, p, func() {
			p.do(s, Action{Kind: RemoveSandbox, Key: removeKey(b.ID), ID: b.ID})
		})
	}
	if len(s.runtime.Sandboxes) > 0 {
		return
	}

	for _, c := range s.runtime.Containers {
		whenDue(s.failures[RemoveKey], now, p, func() {
			p.do(s, Action{Kind: RemoveContainer, Key: removeKey(c.ID), ID: c.ID, Name: c.Name})
		})
	}
}

// lateGrace is what sidecars get that waited for their turn until the grace period was over, as with upstream.
const lateGrace = 2 * time.Second

// stopContainers plans to stop the regular containers together, then the sidecars one after the other in reverse
// order; when the grace period is over, all that are left. It reports whether any container runs.
func stopContainers(s *State, now time.Time, e ending, p *Plan) (running bool) {
	order := map[string]int{}
	if s.pod != nil {
		for i := range s.pod.Spec.InitContainers {
			if isSidecar(&s.pod.Spec.InitContainers[i]) {
				order[s.pod.Spec.InitContainers[i].Name] = i
			}
		}
	}

	var sidecars []*Container
	apps := false
	for i := range s.runtime.Containers {
		c := &s.runtime.Containers[i]
		if c.State != Running {
			continue
		}
		running = true
		if _, ok := order[c.Name]; ok {
			sidecars = append(sidecars, c)
			continue
		}
		apps = true
		stopContainer(s, p, c, now, e.of(c))
	}

	slices.SortFunc(sidecars, func(a, b *Container) int { return cmp.Compare(order[b.Name], order[a.Name]) })
	if !apps && len(sidecars) > 0 {
		stopContainer(s, p, sidecars[0], now, e.of(sidecars[0]))
		sidecars = sidecars[1:]
	}
	if len(sidecars) > 0 && now.Before(e.over) {
		p.wake(e.over)
		return running
	}
	for _, c := range sidecars {
		late := e.of(c)
		late.left = lateGrace
		stopContainer(s, p, c, now, late)
	}
	return running
}

// ending is how a container is stopped: the time that it gets, when the grace period of the pod is over, and the text
// of the event.
type ending struct {
	left    time.Duration
	over    time.Time
	message string
}

// of returns how a container of a pod that ends is stopped.
func (e ending) of(c *Container) ending {
	e.message = "Stopping container " + c.Name
	return e
}

// stopContainer plans to stop a container, or to stop it once more if it gets less time than at the last stop. A
// container that the plan stops already, for another reason, is not stopped twice.
func stopContainer(s *State, p *Plan, c *Container, now time.Time, e ending) {
	key := stopKey(c.ID)
	deadline := now.Add(e.left)

	var before time.Time // the earliest deadline of the stops in flight
	stops := 0
	for k, at := range s.inFlight {
		if k != key && !strings.HasPrefix(k, key+"/") {
			continue
		}
		if stops++; before.IsZero() || at.Before(before) {
			before = at
		}
	}
	if stops > 0 {
		if before.Sub(deadline) < 2*time.Second {
			return
		}
		key = fmt.Sprintf("%s/%d", key, stops)
	}

	if hasAction(p, key) {
		return
	}
	whenDue(s.failures[key], now, p, func() {
		p.do(s, Action{Kind: StopContainer, Key: key, ID: c.ID, Name: c.Name, Grace: e.left, Deadline: deadline,
			Message: e.message})
	})
}

// endPhase returns the phase of a pod that stops. It is terminal only when the last container has ended.
func endPhase(s *State, stop *Stop, phase v1.PodPhase, stopped bool) v1.PodPhase {
	if s.last != nil && terminal(s.last.Phase) {
		return s.last.Phase
	}
	if s.pod != nil && terminal(s.pod.Status.Phase) {
		return s.pod.Status.Phase
	}
	if !stopped {
		if terminal(phase) {
			return v1.PodRunning
		}
		return phase
	}
	if stop.Phase != "" {
		return stop.Phase
	}
	if terminal(phase) || s.static { // no end is forced on a static pod: its mirror shows what its containers did
		return phase
	}
	return v1.PodFailed
}

// applyStop adds the reason and the conditions of the node's decision to a terminal status.
func applyStop(st *v1.PodStatus, s *State, stop *Stop, now time.Time) {
	if stop.Reason != "" {
		st.Reason, st.Message = stop.Reason, stop.Message
	}
	for _, c := range stop.Conditions {
		setCondition(st, lastStatus(s), c, now)
	}
	if stop.Rejected {
		st.ContainerStatuses, st.InitContainerStatuses, st.EphemeralContainerStatuses = nil, nil, nil
	}
}

package pod

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// grace is how long a container of the pod may take to end.
func grace(s *State) time.Duration {
	g := 30 * time.Second
	if s.Pod == nil {
		return time.Second
	}
	if t := s.Pod.Spec.TerminationGracePeriodSeconds; t != nil {
		g = time.Duration(*t) * time.Second
	}
	if t := s.Pod.DeletionGracePeriodSeconds; t != nil && s.Pod.DeletionTimestamp != nil {
		g = time.Duration(*t) * time.Second
	}
	if s.Stop != nil && s.Stop.Grace != nil {
		g = min(g, *s.Stop.Grace)
	}
	return max(g, time.Second)
}

// removeNeverStarted removes containers that were made and never started, as a kubelet leaves them that is killed between
// the two. No stop ends them, and their waiting process would keep the pod's cgroup busy for ever.
func removeNeverStarted(s *State, now time.Time, p *Plan) (found bool) {
	for _, c := range s.Runtime.Containers {
		if c.State == Created {
			found = true
			retry(s.Failures[RemoveKey], now, p, func() {
				p.do(s, Action{Kind: RemoveContainer, Key: "remove/" + c.ID, ID: c.ID, Name: c.Name})
			})
		}
	}
	return found
}

// end plans a pod that must stop: containers, then sandboxes, then what they used, then their remains.
func end(s *State, stop *Stop, now time.Time, p *Plan) {
	since := s.StopSince
	if since.IsZero() {
		since = now
	}
	left := max(grace(s)-now.Sub(since), time.Second)
	if stop.Grace != nil {
		left = min(left, max(*stop.Grace, time.Second))
	}
	running := stopContainers(s, now, left, p)
	if running || s.creating() {
		return
	}
	p.Stopped = true
	for _, b := range s.Runtime.Sandboxes {
		if b.Ready {
			retry(s.Failures[StopSandboxKey], now, p, func() {
				p.do(s, Action{Kind: StopSandbox, Key: "stop-sandbox/" + b.ID, ID: b.ID})
			})
			running = true
		}
	}
	if running {
		return
	}
	if removeNeverStarted(s, now, p) {
		return
	}
	if !s.Cleaned {
		retry(s.Failures[CleanupKey], now, p, func() { p.do(s, Action{Kind: Cleanup, Key: CleanupKey}) })
		return
	}
	if s.Pod != nil && s.Pod.DeletionTimestamp == nil && !s.Gone {
		return // a finished pod keeps its containers, for its logs, until it is deleted
	}
	for _, b := range s.Runtime.Sandboxes { // removing a sandbox removes its containers
		if s.inFlight("stop-sandbox/" + b.ID) { // it has ended, its network not yet: a removal would end that a second time
			continue
		}
		retry(s.Failures[RemoveKey], now, p, func() {
			p.do(s, Action{Kind: RemoveSandbox, Key: "remove/" + b.ID, ID: b.ID})
		})
	}
	for _, c := range s.Runtime.Containers {
		if len(s.Runtime.Sandboxes) == 0 {
			retry(s.Failures[RemoveKey], now, p, func() {
				p.do(s, Action{Kind: RemoveContainer, Key: "remove/" + c.ID, ID: c.ID, Name: c.Name})
			})
		}
	}
	if len(s.Runtime.Sandboxes)+len(s.Runtime.Containers) == 0 {
		p.Finished = s.Pod == nil || s.Gone
	}
}

// stopContainers stops apps together, then sidecars one after the other in reverse; it reports whether any runs.
func stopContainers(s *State, now time.Time, left time.Duration, p *Plan) (running bool) {
	sidecars := map[string]int{}
	if s.Pod != nil {
		for i := range s.Pod.Spec.InitContainers {
			if isSidecar(&s.Pod.Spec.InitContainers[i]) {
				sidecars[s.Pod.Spec.InitContainers[i].Name] = i
			}
		}
	}
	var last *Container
	lastAt, apps := -1, false
	for i := range s.Runtime.Containers {
		c := &s.Runtime.Containers[i]
		if c.State != Running {
			continue
		}
		running = true
		if at, ok := sidecars[c.Name]; ok {
			if at > lastAt {
				last, lastAt = c, at
			}
			continue
		}
		apps = true
		stopContainer(s, p, c, now, ending{left, "Stopping container " + c.Name})
	}
	if !apps && last != nil {
		stopContainer(s, p, last, now, ending{left, "Stopping container " + last.Name})
	}
	return running
}

// ending is how a container is stopped: the time it is given, and what its event says.
type ending struct {
	left    time.Duration
	message string
}

// stopContainer plans a stop, or a second one if the time allowed has shrunk since.
func stopContainer(s *State, p *Plan, c *Container, now time.Time, e ending) {
	key := "stop/" + c.ID
	deadline := now.Add(e.left)
	var before time.Time // the earliest end that was asked for
	stops := 0
	for k, at := range s.InFlight {
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
	retry(s.Failures[key], now, p, func() {
		p.do(s, Action{Kind: StopContainer, Key: key, ID: c.ID, Name: c.Name, Grace: e.left, Deadline: deadline, Message: e.message})
	})
}

// endPhase is the phase of a pod that stops: nothing terminal before the last container has ended.
func endPhase(s *State, stop *Stop, phase v1.PodPhase, stopped bool) v1.PodPhase {
	if s.Last != nil && terminal(s.Last.Phase) {
		return s.Last.Phase
	}
	if s.Pod != nil && terminal(s.Pod.Status.Phase) {
		return s.Pod.Status.Phase
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
	if terminal(phase) || s.Static { // what a static pod ends as is not for the API to learn
		return phase
	}
	return v1.PodFailed
}

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

package pod

import (
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// computePhase derives the phase from what the containers do. stopping is true if no container is started any more,
// failedInit if an init container has failed for good.
func computePhase(s *State, stopping, failedInit bool) v1.PodPhase {
	if s.pod == nil {
		return v1.PodUnknown
	}
	if failedInit {
		return v1.PodFailed
	}

	if !initOver(s) {
		if terminal(s.pod.Status.Phase) {
			return s.pod.Status.Phase
		}
		return v1.PodPending
	}

	return appPhase(s, stopping)
}

// appPhase derives the phase from the regular containers.
func appPhase(s *State, stopping bool) v1.PodPhase {
	running, waiting, failed, restarts := 0, 0, 0, 0
	for c := range desired.Apps(s.pod) {
		cur, _ := shownInstances(s, c.Name)
		switch {
		case cur == nil:
			if old := findStatus(s, c.Name); old != nil && old.State.Terminated != nil &&
				!mayRunAgain(s, c, old) {
				if old.State.Terminated.ExitCode != 0 {
					failed++
				}
				continue
			}
			waiting++
		case cur.State == observed.Running:
			running++
		default:
			if cur.ExitCode != 0 {
				failed++
			}
			if runsAgain(s, c, cur) {
				restarts++
			}
		}
	}

	switch {
	case waiting > 0:
		return v1.PodPending
	case running > 0:
		return v1.PodRunning
	case restarts > 0 && !stopping:
		return v1.PodRunning
	case failed > 0:
		return v1.PodFailed
	}

	return v1.PodSucceeded
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
	if terminal(phase) || s.source.static {
		return phase // no end is forced on a static pod: its mirror shows what its containers did
	}
	return v1.PodFailed
}

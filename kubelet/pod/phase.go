package pod

import v1 "k8s.io/api/core/v1"

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
		if terminalSeen(s) {
			return oldPhase(s)
		}
		return v1.PodPending
	}

	return appPhase(s, stopping)
}

// initOver reports whether the init phase is over in the newest sandbox: a regular container has run there, or all
// init containers have ended well there, and the sidecars among them have started. A sandbox that replaces another has
// an init phase of its own, during which the pod is Pending again. Upstream asks the same of the active sandbox
// (HasAnyActiveRegularContainerStarted in pkg/kubelet/container of 1.36.3).
func initOver(s *State) bool {
	for i := range s.pod.Spec.Containers {
		if cur, _ := shown(s, s.pod.Spec.Containers[i].Name); cur != nil && inNewest(s, cur) {
			return true
		}
	}

	for i := range s.pod.Spec.InitContainers {
		c := &s.pod.Spec.InitContainers[i]
		cur, _ := shown(s, c.Name)
		switch {
		case cur == nil || !inNewest(s, cur):
			return false
		case isSidecar(c):
			if cur.State == Running && !started(s, c, cur) {
				return false
			}
		case cur.State != Exited || cur.ExitCode != 0 || stale(s, cur):
			return false
		}
	}
	return true
}

// inNewest reports whether a container is of the pod's newest sandbox, or no sandbox is left.
func inNewest(s *State, c *Container) bool {
	box := s.runtime.sandbox()
	return box == nil || c.SandboxID == box.ID
}

func terminalSeen(s *State) bool { return terminal(s.pod.Status.Phase) }

func oldPhase(s *State) v1.PodPhase { return s.pod.Status.Phase }

// appPhase derives the phase from the regular containers.
func appPhase(s *State, stopping bool) v1.PodPhase {
	running, waiting, failed, restarts := 0, 0, 0, 0
	for i := range s.pod.Spec.Containers {
		c := &s.pod.Spec.Containers[i]
		cur, _ := shown(s, c.Name)
		switch {
		case cur == nil:
			if old := findStatus(s, c.Name); old != nil && old.State.Terminated != nil &&
				!restartableStatus(s, c, old) {
				if old.State.Terminated.ExitCode != 0 {
					failed++
				}
				continue
			}
			waiting++
		case cur.State == Running:
			running++
		default:
			if cur.ExitCode != 0 {
				failed++
			}
			if again(s, c, cur) {
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

// restartableStatus is restartable for a container that only the status in the API still describes.
func restartableStatus(s *State, c *v1.Container, old *v1.ContainerStatus) bool {
	return restartable(s.pod, c, &Container{State: Exited, ExitCode: old.State.Terminated.ExitCode})
}

// started reports whether a running container counts as started.
func started(s *State, c *v1.Container, cur *Container) bool {
	if cur == nil || cur.State != Running {
		return false
	}
	if c.StartupProbe == nil {
		return true
	}
	p := s.probes[c.Name]
	return p.ContainerID == cur.ID && p.Started != nil && *p.Started
}

// ready reports whether a container counts as ready.
func ready(s *State, c *v1.Container, cur *Container) bool {
	if !started(s, c, cur) {
		return false
	}
	if c.ReadinessProbe == nil {
		return true
	}
	p := s.probes[c.Name]
	return p.ContainerID == cur.ID && p.Ready != nil && *p.Ready
}

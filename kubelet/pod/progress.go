package pod

import (
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// shownInstances returns the instances of a container that its status describes: the newest one that has started and
// whose postStart hook is done, and the one before it. In a pod that ends, hooks do not count.
func shownInstances(s *State, name string) (newest, previous *observed.Container) {
	leaves := s.pod == nil || s.source.gone || s.ending.stop != nil || s.ending.begun() ||
		s.pod.DeletionTimestamp != nil
	return s.runtime.Last(name, func(c *observed.Container) bool {
		hooked := c.State == observed.Running && s.hooks.open(name, c.ID) && !leaves
		return c.State != observed.Created && !hooked
	})
}

// appsSeen reports whether a regular container has run in the newest sandbox, since the last reset: then its init
// phase is over.
func appsSeen(s *State) bool {
	for c := range desired.Apps(s.pod) {
		cur := s.runtime.Newest(c.Name)
		if cur != nil && s.runtime.InNewest(cur) && cur.State != observed.Created && !isStale(s, cur) {
			return true
		}
	}
	return false
}

// appsEnd reports whether the pod is about to end by itself: each of its regular containers has ended for good, or is
// being stopped and will not run again. Its sidecars are then neither restarted nor stopped for a probe, as in a pod
// that is deleted. KEP-4438 wants them restarted in both cases; upstream's kubelet of 1.36.3 does not do that.
func appsEnd(s *State) bool {
	for c := range desired.Apps(s.pod) {
		cur := s.runtime.Newest(c.Name)
		switch {
		case cur == nil:
			return false
		case cur.State == observed.Running:
			once := desired.Policy(s.pod, c) == v1.RestartPolicyNever && len(c.RestartPolicyRules) == 0 &&
				!cur.Changed(c)
			if !once || !s.tasks.busy(stopKey(cur.ID)) {
				return false
			}
		case runsAgain(s, c, cur):
			return false
		}
	}
	return true
}

// initOver reports whether the init phase is over in the newest sandbox: a regular container has run there, or all
// init containers have ended well there, and the sidecars among them have started. A sandbox that replaces another has
// an init phase of its own, during which the pod is Pending again. Upstream asks the same of the active sandbox
// (HasAnyActiveRegularContainerStarted in pkg/kubelet/container of 1.36.3).
func initOver(s *State) bool {
	for c := range desired.Apps(s.pod) {
		if cur, _ := shownInstances(s, c.Name); cur != nil && s.runtime.InNewest(cur) {
			return true
		}
	}

	for c := range desired.Init(s.pod) {
		cur, _ := shownInstances(s, c.Name)
		switch {
		case cur == nil || !s.runtime.InNewest(cur):
			return false
		case desired.IsSidecar(c):
			if cur.State == observed.Running && !s.probes.started(c, cur) {
				return false
			}
		case cur.State != observed.Exited || cur.ExitCode != 0 || isStale(s, cur):
			return false
		}
	}
	return true
}

// initFailed reports whether a regular init container has failed for good.
func initFailed(s *State) bool {
	if appsSeen(s) {
		return false
	}
	for c := range desired.Init(s.pod) {
		cur, _ := shownInstances(s, c.Name)
		failed := cur != nil && cur.State == observed.Exited && cur.ExitCode != 0
		if failed && !desired.IsSidecar(c) && !runsAgain(s, c, cur) {
			return true
		}
	}
	return false
}

// initDone reports whether c is a regular init container of a pod whose regular containers have run. Then it has ended
// with exit code 0, even if the runtime no longer has it.
func initDone(s *State, c *v1.Container) bool {
	return desired.EndsBeforeApps(s.pod, c) && s.runtime.read() && appsSeen(s)
}

// mayRunAgain reports whether a container that only its last status still describes is to run again after its end.
func mayRunAgain(s *State, c *v1.Container, old *v1.ContainerStatus) bool {
	return desired.Restartable(s.pod, c, old.State.Terminated.ExitCode)
}

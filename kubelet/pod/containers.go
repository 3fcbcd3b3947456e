package pod

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/pod/spec"
)

// wanted returns the containers to start now, in order, and plans to stop those that must not go on.
func wanted(s *State, d *decision) (next []want) {
	for c := range spec.Ephemeral(s.pod) {
		// it starts once, regardless of how it ends
		if cur := s.runtime.Newest(c.Name); cur == nil || cur.State == observed.Created {
			if w := restart(s, c, cur, d); w != nil {
				next = append(next, *w)
			}
		}
	}

	seen, finished := appsSeen(s), appsEnd(s)
	for c := range spec.Init(s.pod) {
		if spec.IsSidecar(c) {
			if finished {
				continue
			}
			w, up := sidecar(s, c, d)
			if w != nil {
				next = append(next, *w)
			}
			if !up && !seen {
				return next
			}
			continue
		}
		if seen {
			continue
		}
		w, done := initStep(s, c, d)
		if w != nil {
			next = append(next, *w)
		}
		if !done {
			return next
		}
	}

	for c := range spec.Apps(s.pod) {
		if w := app(s, c, d); w != nil {
			next = append(next, *w)
		}
	}
	return next
}

// sidecar plans an init container that runs beside the others; up reports whether the containers after it may start.
func sidecar(s *State, c *v1.Container, d *decision) (w *want, up bool) {
	cur := s.runtime.Newest(c.Name)
	if cur != nil && cur.State == observed.Running {
		stopBad(s, c, cur, d)
		return nil, s.probes.started(c, cur)
	}
	return restart(s, c, cur, d), false
}

// initStep plans a regular init container.
func initStep(s *State, c *v1.Container, d *decision) (w *want, done bool) {
	cur := s.runtime.Newest(c.Name)
	box := s.runtime.NewestSandbox()
	fresh := cur != nil && box != nil && cur.SandboxID != box.ID // it ran in a sandbox that is gone: it runs once more
	switch {
	case cur != nil && cur.State == observed.Running:
		return nil, false
	case cur != nil && !fresh && cur.State == observed.Exited && cur.ExitCode == 0 && !stale(s, cur):
		return nil, true
	}
	return restart(s, c, cur, d), false
}

// app plans one regular container.
func app(s *State, c *v1.Container, d *decision) *want {
	cur := s.runtime.Newest(c.Name)
	switch {
	case cur != nil && cur.State == observed.Running:
		stopBad(s, c, cur, d)
		return nil
	case !again(s, c, cur):
		return nil
	}
	return restart(s, c, cur, d)
}

// stopBad plans to stop a running container that must not go on as it is. After its end it is started again.
func stopBad(s *State, c *v1.Container, cur *observed.Container, d *decision) {
	why, left := "", grace(s)
	switch {
	case cur.Changed(c):
		why = fmt.Sprintf("Container %s definition changed, will be restarted", c.Name)
	case s.hooks.failed(c.Name, cur.ID):
		why = "FailedPostStartHook"
	case s.probes.failed(c, cur):
		probe := s.probes[c.Name]
		why, left = fmt.Sprintf("Container %s %s, will be restarted", c.Name, probe.Message), probe.grace(c, left)
	case s.resize.restarts(s.pod, c, cur):
		why = fmt.Sprintf("Container %s resize requires restart", c.Name)
	default:
		return
	}
	stopContainer(s, d, cur, stopOrder{left: left, message: why})
}

// unmade returns the app containers that have never been started, when another app container of the pod has already
// ended by a rule of RestartAllContainers. That can happen because containers are started one after the other. They
// are started first, and then restarted with all others, so that their restart counts are 1: upstream starts all app
// containers in one pass (SyncPod in pkg/kubelet/kuberuntime of 1.36.3) and restarts them afterwards. A container
// whose image is not there, or whose start fails, is not waited for.
func unmade(s *State, d *decision) (next []want) {
	t := trigger(s)
	if t == nil || spec.IsInit(s.pod, t.Name) {
		return nil
	}
	for c := range spec.Containers(s.pod) {
		if cur := s.runtime.Newest(c.Name); cur != nil && !stale(s, cur) { // the reset has begun
			return nil
		}
	}

	for c := range spec.Apps(s.pod) {
		if s.runtime.Newest(c.Name) != nil || s.images[c.Name].Ref == "" || s.tasks.failures[c.Name] != nil {
			continue
		}
		if w := restart(s, c, nil, d); w != nil {
			next = append(next, *w)
		}
	}
	return next
}

// stopStale plans to stop the containers of before the last reset. It reports whether one still runs. A trigger of the
// future, after the clock was set back, stops nothing: what is made meanwhile would seem to be of before it.
func stopStale(s *State, d *decision) (running bool) {
	t := trigger(s)
	if t == nil || t.FinishedAt.After(d.now) {
		return false
	}
	for _, c := range slices.Backward(s.runtime.Containers) {
		if c.State == observed.Running && stale(s, &c) && spec.Find(s.pod, c.Name) != nil {
			running = true
			stopContainer(s, d, &c,
				stopOrder{message: "Container " + t.Name + " has ended, all containers are restarted"})
		}
	}
	return running
}

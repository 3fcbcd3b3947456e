package pod

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// planRun plans the actions of a pod that should run.
func planRun(s *State, d *decision) {
	d.plan.wake(podDeadline(s))
	if !s.admitted {
		return
	}
	if !s.volumes.ready {
		d.whenDue(s.volumes.failure, func() { d.do(s.tasks, Action{Kind: PrepareVolumes, Key: VolumesKey}) })
	}

	next, reset := unmadeApps(s, d), &time.Time{}
	if next == nil {
		if stopStale(s, d) {
			return
		}
		next, reset = nextContainers(s, d), lastReset(s)
	}

	box := s.runtime.NewestSandbox()
	usable := box != nil && box.Ready && box.HostNetwork == s.pod.Spec.HostNetwork &&
		(box.HostNetwork || len(box.IPs) > 0)
	if !usable {
		planSandbox(s, d, len(next) > 0)
	}

	busy := usable && planResize(s, d) || s.starting()
	for _, w := range next {
		img := s.images[w.c.Name]
		if img.Ref == "" {
			d.whenDue(img.Failure, func() {
				d.do(s.tasks, Action{Kind: EnsureImage, Key: imageActionKey(w.c.Name), Name: w.c.Name})
			})
			continue
		}
		if !imageVolumes(s, w.c, d) || !usable || !s.volumes.ready || busy {
			continue
		}
		d.whenDue(s.tasks.failures[w.c.Name], func() {
			d.do(s.tasks, Action{Kind: StartContainer, Key: startKey(w.c.Name), Name: w.c.Name, ID: box.ID,
				Attempt:  w.attempt,
				ImageRef: img.Ref, Backoff: w.backoff, Reset: reset})
			busy = true // containers start one at a time, in the order of the spec
		})
	}

	d.whenDue(s.tasks.failures[RemoveKey], func() { removeSurplus(s, d) })
}

// imageVolumes plans to make the images of the volumes that a container mounts present, and reports whether all are.
func imageVolumes(s *State, c *v1.Container, d *decision) (present bool) {
	present = true
	for _, v := range desired.MountedImages(s.pod, c) {
		img := s.images[VolumeImage(v)]
		if img.Ref != "" {
			continue
		}
		present = false
		key := imageActionKey(VolumeImage(v))
		if !d.plan.has(key) { // several containers may mount it
			d.whenDue(img.Failure, func() { d.do(s.tasks, Action{Kind: EnsureImage, Key: key, Volume: v}) })
		}
	}
	return present
}

// planSandbox replaces a sandbox that cannot be used. It plans one stage per call: the containers in it are stopped
// first, then the sandbox itself, and only then a new one is created; the facts of each stage lead to the next call.
// needed says that there is a container to start. Without one, the newest sandbox stays as it is, and none is created.
func planSandbox(s *State, d *decision, needed bool) {
	box, p := s.runtime.NewestSandbox(), d.plan
	for c := range s.runtime.All() { // the containers of an unusable sandbox are stopped first
		if c.State == observed.Running {
			stopContainer(s, d, c,
				stopOrder{left: gracePeriod(s), message: "Pod sandbox changed, it will be killed and re-created."})
			needed = false
		}
	}

	for _, b := range s.runtime.Sandboxes {
		if b.Ready && (box == nil || b.ID != box.ID || needed) {
			stopSandbox(s, d, b.ID)
			needed = false
		}
	}

	if !needed {
		return
	}

	var attempt uint32
	if box != nil {
		attempt = box.Attempt + 1
		p.Events = append(p.Events, Event{Key: box.ID, Type: v1.EventTypeNormal, Reason: "SandboxChanged",
			Message: "Pod sandbox changed, it will be killed and re-created."})
	}

	if d.node.NetworkNotReady != "" && !s.pod.Spec.HostNetwork {
		p.Events = append(p.Events, Event{Key: "network", Type: v1.EventTypeWarning, Reason: "NetworkNotReady",
			Message: "network is not ready: " + d.node.NetworkNotReady})
		p.wake(d.now.Add(time.Second))
		return
	}

	// A sandbox that died has its network still, until it is stopped: all have after a reboot of the node.
	for _, b := range s.runtime.Sandboxes {
		if !s.runtime.stopped[b.ID] {
			stopSandbox(s, d, b.ID)
			needed = false
		}
	}
	if !needed {
		return
	}

	d.try(s.tasks, Action{Kind: CreateSandbox, Key: SandboxKey, Attempt: attempt})
}

// nextContainers returns the containers to start now, in order, and plans to stop those that must not go on.
func nextContainers(s *State, d *decision) (next []nextInstance) {
	for c := range desired.Ephemeral(s.pod) {
		// it starts once, regardless of how it ends
		if cur := s.runtime.Newest(c.Name); cur == nil || cur.State == observed.Created {
			if w := restartAfter(s, c, cur, d); w != nil {
				next = append(next, *w)
			}
		}
	}

	seen, finished := appsSeen(s), appsEnd(s)
	for c := range desired.Init(s.pod) {
		if desired.IsSidecar(c) {
			if finished {
				continue
			}
			w, up := planSidecar(s, c, d)
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
		w, done := planInit(s, c, d)
		if w != nil {
			next = append(next, *w)
		}
		if !done {
			return next
		}
	}

	for c := range desired.Apps(s.pod) {
		if w := planApp(s, c, d); w != nil {
			next = append(next, *w)
		}
	}
	return next
}

// planSidecar plans an init container that runs beside the others; up reports whether the containers after it may
// start.
func planSidecar(s *State, c *v1.Container, d *decision) (w *nextInstance, up bool) {
	cur := s.runtime.Newest(c.Name)
	if cur != nil && cur.State == observed.Running {
		stopBad(s, c, cur, d)
		return nil, s.probes.started(c, cur)
	}
	return restartAfter(s, c, cur, d), false
}

// planInit plans a regular init container.
func planInit(s *State, c *v1.Container, d *decision) (w *nextInstance, done bool) {
	cur := s.runtime.Newest(c.Name)
	box := s.runtime.NewestSandbox()
	fresh := cur != nil && box != nil && cur.SandboxID != box.ID // it ran in a sandbox that is gone: it runs once more
	switch {
	case cur != nil && cur.State == observed.Running:
		return nil, false
	case cur != nil && !fresh && cur.State == observed.Exited && cur.ExitCode == 0 && !isStale(s, cur):
		return nil, true
	}
	return restartAfter(s, c, cur, d), false
}

// planApp plans one regular container.
func planApp(s *State, c *v1.Container, d *decision) *nextInstance {
	cur := s.runtime.Newest(c.Name)
	switch {
	case cur != nil && cur.State == observed.Running:
		stopBad(s, c, cur, d)
		return nil
	case !runsAgain(s, c, cur):
		return nil
	}
	return restartAfter(s, c, cur, d)
}

// stopBad plans to stop a running container that must not go on as it is. After its end it is started again.
func stopBad(s *State, c *v1.Container, cur *observed.Container, d *decision) {
	why, left := "", gracePeriod(s)
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

// unmadeApps returns the app containers that have never been started, when another app container of the pod has already
// ended by a rule of RestartAllContainers. That can happen because containers are started one after the other. They
// are started first, and then restarted with all others, so that their restart counts are 1: upstream starts all app
// containers in one pass (SyncPod in pkg/kubelet/kuberuntime of 1.36.3) and restarts them afterwards. A container
// whose image is not there, or whose start fails, is not waited for.
func unmadeApps(s *State, d *decision) (next []nextInstance) {
	t := resetTrigger(s)
	if t == nil || desired.IsInit(s.pod, t.Name) {
		return nil
	}
	for c := range desired.Containers(s.pod) {
		if cur := s.runtime.Newest(c.Name); cur != nil && !isStale(s, cur) { // the reset has begun
			return nil
		}
	}

	for c := range desired.Apps(s.pod) {
		if s.runtime.Newest(c.Name) != nil || s.images[c.Name].Ref == "" || s.tasks.failures[c.Name] != nil {
			continue
		}
		if w := restartAfter(s, c, nil, d); w != nil {
			next = append(next, *w)
		}
	}
	return next
}

// stopStale plans to stop the containers of before the last reset. It reports whether one still runs. A trigger of the
// future, after the clock was set back, stops nothing: what is made meanwhile would seem to be of before it.
func stopStale(s *State, d *decision) (running bool) {
	t := resetTrigger(s)
	if t == nil || t.FinishedAt.After(d.now) {
		return false
	}
	for _, c := range slices.Backward(s.runtime.Containers) {
		if c.State == observed.Running && isStale(s, &c) && desired.Find(s.pod, c.Name) != nil {
			running = true
			stopContainer(s, d, &c,
				stopOrder{message: "Container " + t.Name + " has ended, all containers are restarted"})
		}
	}
	return running
}

// removeSurplus removes containers and sandboxes that were replaced. Of each container name it keeps the newest that
// has exited, because `kubectl logs --previous` and the last termination state are read from it. It keeps the sandbox
// in use, and any other in which a container still is. The pod has a sandbox.
func removeSurplus(s *State, d *decision) {
	last := resetTrigger(s) // what it reset may not all run yet
	for c := range s.runtime.All() {
		if c.State != observed.Exited {
			continue
		}
		newer := 0
		for o := range s.runtime.All() {
			if o.Name == c.Name && o.State == observed.Exited && o.NewerThan(c) {
				newer++
			}
		}
		if newer > 0 && c != last {
			d.do(s.tasks, Action{Kind: RemoveContainer, Key: removeKey(c.ID), ID: c.ID, Name: c.Name})
		}
	}

	box := s.runtime.NewestSandbox()
	for _, b := range s.runtime.Sandboxes {
		if b.ID != box.ID && !b.Ready && !s.runtime.Uses(b.ID) && !s.tasks.busy(stopSandboxKey(b.ID)) {
			d.do(s.tasks, Action{Kind: RemoveSandbox, Key: removeKey(b.ID), ID: b.ID})
		}
	}
}

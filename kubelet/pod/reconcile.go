package pod

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Reconcile decides what to do about one pod now. It changes nothing. Of a pod that is Undecided, or that was not read
// in the runtime yet, it plans nothing.
func Reconcile(s *State, n Node, now time.Time) Plan {
	p := &Plan{}
	if s.Undecided() {
		return *p
	}
	if s.runtime == nil { // unknown is not absent
		p.Status = status(s, n, now, v1.PodPending)
		return *p
	}

	d := &decision{node: n, now: now, plan: p}
	stop := stopCause(s, d)
	failedInit := s.pod != nil && initFailed(s)
	if stop == nil && !failedInit {
		run(s, d)
	}

	phase := computePhase(s, stop != nil, failedInit)
	if stop == nil && terminal(phase) {
		// All containers ended by themselves: what was planned for a running pod no longer applies.
		p.Actions, p.Events = nil, nil
		stop = &Stop{Phase: phase}
	}

	if stop != nil {
		p.Stopping = true
		end(s, stop, now, p)
		phase = endPhase(s, stop, phase, p.Stopped)
	}

	runHooks(s, p)

	p.Status = status(s, n, now, phase)
	if stop != nil && terminal(phase) {
		applyStop(&p.Status, s, stop, now)
	}
	if p.Stopped && s.pod != nil && s.pod.DeletionTimestamp != nil && s.cleanup.done {
		p.Delete = true
	}
	if s.pod != nil {
		resizeEvents(s, p)
	}

	p.Events = append(slices.Clone(s.events), p.Events...)
	p.Cancel = unwanted(s, p.Stopping)
	return *p
}

// runHooks plans the postStart hooks of containers that were just started, also of a pod that ends.
func runHooks(s *State, p *Plan) {
	for _, name := range slices.Sorted(slices.Values(waitingHooks(s))) {
		p.do(s, Action{Kind: RunHook, Key: hookKey(name), Name: name, ID: s.postStart[name].ContainerID})
	}
}

// unwanted returns the keys of actions in flight whose outcome is no longer needed: in a pod that ends, images and
// volumes (calls to the runtime always run to their end), and the hooks of containers that have ended.
func unwanted(s *State, stopping bool) (keys []string) {
	for key := range s.inFlight {
		if stopping && (key == VolumesKey || strings.HasPrefix(key, "image/")) {
			keys = append(keys, key)
		}
	}

	for name, hook := range s.postStart {
		if c, ok := s.runtime.Find(hook.ContainerID); s.busy(hookKey(name)) && (!ok || c.State == Exited) {
			keys = append(keys, hookKey(name))
		}
	}
	slices.Sort(keys)
	return keys
}

const deadlineReason = "DeadlineExceeded"

// stopCause returns why the pod must end, or nil. A deadline in the future is no cause; run plans a wake-up for it.
func stopCause(s *State, d *decision) *Stop {
	switch {
	case s.pod == nil:
		grace := time.Second
		return &Stop{Grace: &grace}
	case s.stop != nil:
		return s.stop
	case s.pod.DeletionTimestamp != nil, s.gone:
		return &Stop{}
	case terminal(s.pod.Status.Phase):
		return &Stop{Phase: s.pod.Status.Phase, Reason: s.pod.Status.Reason, Message: s.pod.Status.Message}
	case s.last != nil && terminal(s.last.Phase):
		return &Stop{Phase: s.last.Phase, Reason: s.last.Reason, Message: s.last.Message}
	}

	if at := deadline(s); !at.IsZero() && !d.now.Before(at) {
		stop := &Stop{Phase: v1.PodFailed, Reason: deadlineReason,
			Message: "Pod was active on the node longer than the specified deadline"}
		d.plan.Events = append(d.plan.Events,
			Event{Key: "deadline", Type: v1.EventTypeNormal, Reason: stop.Reason, Message: stop.Message})
		return stop
	}

	if !s.stopSince.IsZero() { // the pod has begun to stop; the reason may no longer be visible
		return &Stop{}
	}
	return nil
}

func deadline(s *State) time.Time {
	start := startTime(s)
	if s.pod == nil || s.pod.Spec.ActiveDeadlineSeconds == nil || start == nil {
		return time.Time{}
	}
	return start.Add(time.Duration(*s.pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// run plans the actions of a pod that should run.
func run(s *State, d *decision) {
	p := d.plan
	p.wake(deadline(s))
	if !s.admitted {
		return
	}
	if !s.volumesReady {
		whenDue(s.volumeFailure, d.now, p, func() { p.do(s, Action{Kind: PrepareVolumes, Key: VolumesKey}) })
	}

	next, reset := unmade(s, d), &time.Time{}
	if next == nil {
		if stopStale(s, d) {
			return
		}
		next, reset = wanted(s, d), lastReset(s)
	}

	box := s.runtime.sandbox()
	usable := box != nil && box.Ready && box.HostNetwork == s.pod.Spec.HostNetwork &&
		(box.HostNetwork || len(box.IPs) > 0)
	if !usable {
		planSandbox(s, d, len(next) > 0)
	}

	starting := usable && resize(s, d) || s.starting()
	for _, w := range next {
		img := s.images[w.c.Name]
		if img.Ref == "" {
			whenDue(img.Failure, d.now, p,
				func() { p.do(s, Action{Kind: EnsureImage, Key: imageActionKey(w.c.Name), Name: w.c.Name}) })
			continue
		}
		if !imageVolumes(s, w.c, d) || !usable || !s.volumesReady || starting {
			continue
		}
		whenDue(s.failures[w.c.Name], d.now, p, func() {
			p.do(s, Action{Kind: StartContainer, Key: startKey(w.c.Name), Name: w.c.Name, ID: box.ID,
				Attempt:  w.attempt,
				ImageRef: img.Ref, Backoff: w.backoff, Reset: reset})
			starting = true // containers start one at a time, in the order of the spec
		})
	}

	whenDue(s.failures[RemoveKey], d.now, p, func() { removeSurplus(s, p) })
}

// imageVolumes plans to make the images of the volumes that a container mounts present, and reports whether all are.
func imageVolumes(s *State, c *v1.Container, d *decision) (present bool) {
	present = true
	for _, v := range mountedImages(s.pod, c) {
		img := s.images[VolumeImage(v)]
		if img.Ref != "" {
			continue
		}
		present = false
		key := imageActionKey(VolumeImage(v))
		if !hasAction(d.plan, key) { // several containers may mount it
			whenDue(img.Failure, d.now, d.plan, func() { d.plan.do(s, Action{Kind: EnsureImage, Key: key, Volume: v}) })
		}
	}
	return present
}

func hasAction(p *Plan, key string) bool {
	return slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Key == key })
}

// planSandbox replaces a sandbox that cannot be used. It plans one stage per call: the containers in it are stopped
// first, then the sandbox itself, and only then a new one is created; the facts of each stage lead to the next call.
// needed says that there is a container to start. Without one, the newest sandbox stays as it is, and none is created.
func planSandbox(s *State, d *decision, needed bool) {
	box, p := s.runtime.sandbox(), d.plan
	for _, c := range s.runtime.Containers { // the containers of an unusable sandbox are stopped first
		if c.State == Running {
			stopContainer(s, p, &c, d.now,
				ending{left: grace(s), message: "Pod sandbox changed, it will be killed and re-created."})
			needed = false
		}
	}

	for _, b := range s.runtime.Sandboxes {
		if b.Ready && (box == nil || b.ID != box.ID || needed) {
			stopSandbox(s, b.ID, d.now, p)
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
		if !s.stopped[b.ID] {
			stopSandbox(s, b.ID, d.now, p)
			needed = false
		}
	}
	if !needed {
		return
	}

	whenDue(s.failures[SandboxKey], d.now, p, func() {
		p.do(s, Action{Kind: CreateSandbox, Key: SandboxKey, Attempt: attempt})
	})
}

// stopSandbox plans to end a sandbox and take its network down.
func stopSandbox(s *State, id string, now time.Time, p *Plan) {
	whenDue(s.failures[StopSandboxKey], now, p,
		func() { p.do(s, Action{Kind: StopSandbox, Key: stopSandboxKey(id), ID: id}) })
}

// wanted returns the containers to start now, in order, and plans to stop those that must not go on.
func wanted(s *State, d *decision) (next []want) {
	spec := &s.pod.Spec
	for i := range spec.EphemeralContainers {
		c := v1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		// it starts once, regardless of how it ends
		if cur, _ := s.runtime.latest(c.Name); cur == nil || cur.State == Created {
			if w := restart(s, &c, cur, d); w != nil {
				next = append(next, *w)
			}
		}
	}

	appsSeen, appsEnd := appsSeen(s), appsEnd(s)
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if isSidecar(c) {
			if appsEnd {
				continue
			}
			w, up := sidecar(s, c, d)
			if w != nil {
				next = append(next, *w)
			}
			if !up && !appsSeen {
				return next
			}
			continue
		}
		if appsSeen {
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

	for i := range spec.Containers {
		if w := app(s, &spec.Containers[i], d); w != nil {
			next = append(next, *w)
		}
	}
	return next
}

// sidecar plans an init container that runs beside the others; up reports whether the containers after it may start.
func sidecar(s *State, c *v1.Container, d *decision) (w *want, up bool) {
	cur, _ := s.runtime.latest(c.Name)
	if cur != nil && cur.State == Running {
		stopBad(s, c, cur, d)
		return nil, started(s, c, cur)
	}
	return restart(s, c, cur, d), false
}

// initFailed reports whether a regular init container has failed for good.
func initFailed(s *State) bool {
	if appsSeen(s) {
		return false
	}
	for i := range s.pod.Spec.InitContainers {
		c := &s.pod.Spec.InitContainers[i]
		cur, _ := shown(s, c.Name)
		if !isSidecar(c) && cur != nil && cur.State == Exited && cur.ExitCode != 0 && !again(s, c, cur) {
			return true
		}
	}
	return false
}

// initStep plans a regular init container.
func initStep(s *State, c *v1.Container, d *decision) (w *want, done bool) {
	cur, _ := s.runtime.latest(c.Name)
	box := s.runtime.sandbox()
	fresh := cur != nil && box != nil && cur.SandboxID != box.ID // it ran in a sandbox that is gone: it runs once more
	switch {
	case cur != nil && cur.State == Running:
		return nil, false
	case cur != nil && !fresh && cur.State == Exited && cur.ExitCode == 0 && !stale(s, cur):
		return nil, true
	}
	return restart(s, c, cur, d), false
}

// app plans one regular container.
func app(s *State, c *v1.Container, d *decision) *want {
	cur, _ := s.runtime.latest(c.Name)
	switch {
	case cur != nil && cur.State == Running:
		stopBad(s, c, cur, d)
		return nil
	case !again(s, c, cur):
		return nil
	}
	return restart(s, c, cur, d)
}

// stopBad plans to stop a running container that must not go on as it is. After its end it is started again.
func stopBad(s *State, c *v1.Container, cur *Container, d *decision) {
	probe, hook := s.probes[c.Name], s.postStart[c.Name]
	why, left := "", grace(s)
	switch {
	case changed(cur, c):
		why = fmt.Sprintf("Container %s definition changed, will be restarted", c.Name)
	case hook.ContainerID == cur.ID && hook.Failed:
		why = "FailedPostStartHook"
	case probeFailed(s, c, cur):
		why, left = fmt.Sprintf("Container %s %s, will be restarted", c.Name, probe.Message), probeGrace(c, probe, left)
	case resizeRestarts(s, c, cur):
		why = fmt.Sprintf("Container %s resize requires restart", c.Name)
	default:
		return
	}
	stopContainer(s, d.plan, cur, d.now, ending{left: left, message: why})
}

// probeGrace returns the grace period of a container whose probe failed. The probe may have one of its own.
func probeGrace(c *v1.Container, p Probe, otherwise time.Duration) time.Duration {
	by := c.LivenessProbe
	if p.Started == nil || !*p.Started {
		if c.StartupProbe != nil {
			by = c.StartupProbe
		}
	}
	if by == nil || by.TerminationGracePeriodSeconds == nil {
		return otherwise
	}
	return max(time.Duration(*by.TerminationGracePeriodSeconds)*time.Second, time.Second)
}

// removeSurplus removes containers and sandboxes that were replaced. Of each container name it keeps the newest that
// has exited, because `kubectl logs --previous` and the last termination state are read from it. It keeps the sandbox
// in use, and any other in which a container still is. The pod has a sandbox.
func removeSurplus(s *State, p *Plan) {
	last := trigger(s) // what it reset may not all run yet
	for i := range s.runtime.Containers {
		c := &s.runtime.Containers[i]
		if c.State != Exited {
			continue
		}
		newer := 0
		for j := range s.runtime.Containers {
			o := &s.runtime.Containers[j]
			if o.Name == c.Name && o.State == Exited && later(o, c) {
				newer++
			}
		}
		if newer > 0 && c != last {
			p.do(s, Action{Kind: RemoveContainer, Key: removeKey(c.ID), ID: c.ID, Name: c.Name})
		}
	}

	box := s.runtime.sandbox()
	for _, b := range s.runtime.Sandboxes {
		if b.ID != box.ID && !b.Ready && !s.runtime.uses(b.ID) && !s.busy(stopSandboxKey(b.ID)) {
			p.do(s, Action{Kind: RemoveSandbox, Key: removeKey(b.ID), ID: b.ID})
		}
	}
}

func (r *Runtime) uses(sandbox string) bool {
	for _, c := range r.Containers {
		if c.SandboxID == sandbox {
			return true
		}
	}
	return false
}

package pod

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Reconcile looks at one pod and says what to do now. It changes nothing.
func Reconcile(s *State, f Facts, now time.Time) Plan {
	p := &Plan{}
	if s.Runtime == nil { // not observed is not absent
		p.Status = status(s, f, now, v1.PodPending)
		return *p
	}
	l := &looking{facts: f, now: now, plan: p}
	stop := stopCause(s, l)
	failedInit := s.Pod != nil && initFailed(s)
	if stop == nil && !failedInit {
		run(s, l)
	}
	phase := computePhase(s, stop != nil, failedInit)
	if stop == nil && terminal(phase) {
		// Everything ended by itself: nothing that was planned for running matters any more.
		p.Actions, p.Events = nil, nil
		stop = &Stop{Phase: phase}
	}
	if stop != nil {
		p.Stopping = true
		end(s, stop, now, p)
		phase = endPhase(s, stop, phase, p.Stopped)
	}
	p.Status = status(s, f, now, phase)
	if stop != nil && terminal(phase) {
		applyStop(&p.Status, s, stop, now)
	}
	if p.Stopped && s.Pod != nil && s.Pod.DeletionTimestamp != nil && s.Cleaned {
		p.Delete = true
	}
	if s.Pod != nil {
		resizeEvents(s, p)
	}
	return *p
}

// looking is what one look at a pod is done with, and the plan that grows meanwhile.
type looking struct {
	facts Facts
	now   time.Time
	plan  *Plan
}

func terminal(phase v1.PodPhase) bool { return phase == v1.PodFailed || phase == v1.PodSucceeded }

const deadlineReason = "DeadlineExceeded"

// stopCause is why the pod must end, or nil. A deadline that lies ahead is left to run, which wakes at it.
func stopCause(s *State, l *looking) *Stop {
	switch {
	case s.Pod == nil:
		grace := time.Second
		return &Stop{Grace: &grace}
	case s.Stop != nil:
		return s.Stop
	case s.Pod.DeletionTimestamp != nil, s.Gone:
		return &Stop{}
	case terminal(s.Pod.Status.Phase):
		return &Stop{Phase: s.Pod.Status.Phase, Reason: s.Pod.Status.Reason, Message: s.Pod.Status.Message}
	case s.Last != nil && terminal(s.Last.Phase):
		return &Stop{Phase: s.Last.Phase, Reason: s.Last.Reason, Message: s.Last.Message}
	}
	if at := deadline(s); !at.IsZero() && !l.now.Before(at) {
		stop := &Stop{Phase: v1.PodFailed, Reason: deadlineReason, Message: "Pod was active on the node longer than the specified deadline"}
		l.plan.Events = append(l.plan.Events, Event{Key: "deadline", Type: v1.EventTypeNormal, Reason: stop.Reason, Message: stop.Message})
		return stop
	}
	if !s.StopSince.IsZero() { // it has begun to end, for a reason that may be harder to see by now
		return &Stop{}
	}
	return nil
}

func deadline(s *State) time.Time {
	start := startTime(s)
	if s.Pod == nil || s.Pod.Spec.ActiveDeadlineSeconds == nil || start == nil {
		return time.Time{}
	}
	return start.Add(time.Duration(*s.Pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// run plans a pod that should run.
func run(s *State, l *looking) {
	p := l.plan
	p.wake(deadline(s))
	if !s.Admitted {
		return
	}
	if !s.VolumesReady {
		retry(s.VolumeFailure, l.now, p, func() { p.do(s, Action{Kind: PrepareVolumes, Key: VolumesKey}) })
	}
	next := wanted(s, l)
	box := s.Runtime.sandbox()
	usable := box != nil && box.Ready && box.HostNetwork == s.Pod.Spec.HostNetwork && (box.HostNetwork || len(box.IPs) > 0)
	if !usable {
		planSandbox(s, l, len(next) > 0)
	}
	starting := usable && resize(s, l) || s.startInFlight()
	for _, w := range next {
		img := s.Images[w.c.Name]
		if img.Ref == "" {
			retry(img.Failure, l.now, p, func() { p.do(s, Action{Kind: EnsureImage, Key: "image/" + w.c.Name, Name: w.c.Name}) })
			continue
		}
		if !imageVolumes(s, w.c, l) || !usable || !s.VolumesReady || starting {
			continue
		}
		retry(s.Failures[w.c.Name], l.now, p, func() {
			p.do(s, Action{Kind: StartContainer, Key: "start/" + w.c.Name, Name: w.c.Name, ID: box.ID, Attempt: w.attempt,
				ImageRef: img.Ref, Backoff: w.backoff})
			starting = true // one at a time, in the order of the spec
		})
	}
	retry(s.Failures[RemoveKey], l.now, p, func() { removeSurplus(s, p) })
}

// VolumeImage is the key of State.Images for the image of a volume. No container has such a name.
func VolumeImage(volume string) string { return "/volume/" + volume }

// imageVolumes plans the images of the volumes that a container mounts, and tells whether all are there.
func imageVolumes(s *State, c *v1.Container, l *looking) (present bool) {
	present = true
	for _, v := range mountedImages(s.Pod, c) {
		img := s.Images[VolumeImage(v)]
		if img.Ref != "" {
			continue
		}
		present = false
		key := "image" + VolumeImage(v)
		if !hasAction(l.plan, key) { // several containers may mount it
			retry(img.Failure, l.now, l.plan, func() { l.plan.do(s, Action{Kind: EnsureImage, Key: key, Volume: v}) })
		}
	}
	return present
}

func hasAction(p *Plan, key string) bool {
	return slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Key == key })
}

// mountedImages are the volumes that are images and that c mounts.
func mountedImages(p *v1.Pod, c *v1.Container) (names []string) {
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name })
		if i >= 0 && p.Spec.Volumes[i].Image != nil && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

func (s *State) startInFlight() bool {
	for key := range s.InFlight {
		if strings.HasPrefix(key, "start/") {
			return true
		}
	}
	return false
}

// retry runs do unless the last failure asks to wait; then it plans the wake-up.
func retry(fail *Failure, now time.Time, p *Plan, do func()) {
	if fail != nil && now.Before(fail.RetryAt) {
		p.wake(fail.RetryAt)
		return
	}
	do()
}

func planSandbox(s *State, l *looking, needed bool) {
	box, p := s.Runtime.sandbox(), l.plan
	for _, c := range s.Runtime.Containers { // containers of a sandbox that is no good go first
		if c.State == Running {
			stopContainer(s, p, &c, l.now, ending{30 * time.Second, "Pod sandbox changed, it will be killed and re-created."})
			needed = false
		}
	}
	for _, b := range s.Runtime.Sandboxes {
		if b.Ready && (box == nil || b.ID != box.ID || needed) {
			retry(s.Failures[StopSandboxKey], l.now, p, func() {
				p.do(s, Action{Kind: StopSandbox, Key: "stop-sandbox/" + b.ID, ID: b.ID})
			})
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
	if l.facts.NetworkNotReady != "" && !s.Pod.Spec.HostNetwork {
		p.Events = append(p.Events, Event{Key: "network", Type: v1.EventTypeWarning, Reason: "NetworkNotReady",
			Message: "network is not ready: " + l.facts.NetworkNotReady})
		p.wake(l.now.Add(time.Second))
		return
	}
	retry(s.Failures[SandboxKey], l.now, p, func() {
		p.do(s, Action{Kind: CreateSandbox, Key: SandboxKey, Attempt: attempt})
	})
}

// want is one container that should be started as soon as all it needs is there.
type want struct {
	c       *v1.Container
	attempt uint32
	backoff *Backoff
}

// wanted lists the containers to start now, in order, and plans the stops of those that must not go on.
func wanted(s *State, l *looking) (next []want) {
	spec := &s.Pod.Spec
	for i := range spec.EphemeralContainers {
		c := v1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		if cur, _ := s.Runtime.latest(c.Name); cur == nil || cur.State == Created { // once, whatever becomes of it
			if w := restart(s, &c, cur, l); w != nil {
				next = append(next, *w)
			}
		}
	}
	appsSeen := s.appsSeen()
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if isSidecar(c) {
			w, up := sidecar(s, c, l)
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
		w, done := initStep(s, c, l)
		if w != nil {
			next = append(next, *w)
		}
		if !done {
			return next
		}
	}
	for i := range spec.Containers {
		if w := app(s, &spec.Containers[i], l); w != nil {
			next = append(next, *w)
		}
	}
	return next
}

// appsSeen tells whether a regular container has run in the newest sandbox: then its init phase is over.
func (s *State) appsSeen() bool {
	box := s.Runtime.sandbox()
	for i := range s.Pod.Spec.Containers {
		cur, _ := s.Runtime.latest(s.Pod.Spec.Containers[i].Name)
		if cur != nil && (box == nil || cur.SandboxID == box.ID) && cur.State != Created {
			return true
		}
	}
	return false
}

func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// sidecar plans an init container that runs along; up tells whether the containers after it may start.
func sidecar(s *State, c *v1.Container, l *looking) (w *want, up bool) {
	cur, _ := s.Runtime.latest(c.Name)
	if cur != nil && cur.State == Running {
		stopBad(s, c, cur, l)
		return nil, started(s, c, cur)
	}
	return restart(s, c, cur, l), false
}

// initFailed tells whether a regular init container has failed for good.
func initFailed(s *State) bool {
	if s.appsSeen() {
		return false
	}
	for i := range s.Pod.Spec.InitContainers {
		c := &s.Pod.Spec.InitContainers[i]
		cur, _ := s.shown(c.Name)
		if !isSidecar(c) && cur != nil && cur.State == Exited && cur.ExitCode != 0 && !restartable(s.Pod, c, cur) {
			return true
		}
	}
	return false
}

// initStep plans a regular init container.
func initStep(s *State, c *v1.Container, l *looking) (w *want, done bool) {
	cur, _ := s.Runtime.latest(c.Name)
	box := s.Runtime.sandbox()
	fresh := cur != nil && box != nil && cur.SandboxID != box.ID // it ran for a sandbox that is gone: once more
	switch {
	case cur != nil && cur.State == Running:
		return nil, false
	case cur != nil && !fresh && cur.State == Exited && cur.ExitCode == 0:
		return nil, true
	}
	return restart(s, c, cur, l), false
}

// app plans one regular container.
func app(s *State, c *v1.Container, l *looking) *want {
	cur, _ := s.Runtime.latest(c.Name)
	switch {
	case cur != nil && cur.State == Running:
		stopBad(s, c, cur, l)
		return nil
	case !restartable(s.Pod, c, cur):
		return nil
	}
	return restart(s, c, cur, l)
}

// stopBad plans the stop of a running container that must not go on as it is. Once it has ended it starts anew.
func stopBad(s *State, c *v1.Container, cur *Container, l *looking) {
	probe, hook := s.Probes[c.Name], s.PostStart[c.Name]
	why, left := "", grace(s)
	switch {
	case cur.Hash != "" && cur.Hash != Hash(c):
		why = fmt.Sprintf("Container %s definition changed, will be restarted", c.Name)
	case hook.ContainerID == cur.ID && hook.Failed:
		why = "FailedPostStartHook"
	case probe.ContainerID == cur.ID && probe.Live != nil && !*probe.Live:
		why, left = fmt.Sprintf("Container %s %s, will be restarted", c.Name, probe.Message), probeGrace(c, probe, left)
	case resizeRestarts(s, c, cur):
		why = fmt.Sprintf("Container %s resize requires restart", c.Name)
	default:
		return
	}
	stopContainer(s, l.plan, cur, l.now, ending{left, why})
}

// probeGrace is how long a container gets that a probe has given up: the probe may say so itself.
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

func removeSurplus(s *State, p *Plan) {
	for i := range s.Runtime.Containers {
		c := &s.Runtime.Containers[i]
		if c.State != Exited {
			continue
		}
		newer := 0
		for j := range s.Runtime.Containers {
			o := &s.Runtime.Containers[j]
			if o.Name == c.Name && o.State == Exited && later(o, c) {
				newer++
			}
		}
		if newer > 0 {
			p.do(s, Action{Kind: RemoveContainer, Key: "remove/" + c.ID, ID: c.ID, Name: c.Name})
		}
	}
	box := s.Runtime.sandbox()
	for _, b := range s.Runtime.Sandboxes {
		if b.ID != box.ID && !b.Ready && !s.Runtime.uses(b.ID) && !s.inFlight("stop-sandbox/"+b.ID) {
			p.do(s, Action{Kind: RemoveSandbox, Key: "remove/" + b.ID, ID: b.ID})
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

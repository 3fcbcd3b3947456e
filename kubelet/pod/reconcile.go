package pod

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
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
	stop := stopCause(s, now)
	var failedInit bool
	if stop == nil {
		failedInit = run(s, f, now, p)
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
	return *p
}

func terminal(phase v1.PodPhase) bool { return phase == v1.PodFailed || phase == v1.PodSucceeded }

// stopCause is why the pod must end, or nil. A deadline that lies ahead is left to deadlineWake.
func stopCause(s *State, now time.Time) *Stop {
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
	if at := deadline(s); !at.IsZero() && !now.Before(at) {
		return &Stop{Phase: v1.PodFailed, Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}
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

// run plans a pod that should run. It reports whether an init container failed for good.
func run(s *State, f Facts, now time.Time, p *Plan) (failedInit bool) {
	p.wake(deadline(s))
	if !s.Admitted {
		return false
	}
	if !s.VolumesReady {
		retry(s.VolumeFailure, now, p, func() { p.do(s, Action{Kind: PrepareVolumes, Key: volumesKey}) })
	}
	next, failedInit := wanted(s, now, f, p)
	if failedInit {
		return true
	}
	box := s.Runtime.sandbox()
	usable := box != nil && box.Ready && box.HostNetwork == s.Pod.Spec.HostNetwork && (box.HostNetwork || len(box.IPs) > 0)
	if !usable {
		planSandbox(s, f, now, p, len(next) > 0)
	}
	starting := s.startInFlight()
	for _, w := range next {
		img := s.Images[w.c.Name]
		if img.Ref == "" {
			retry(img.Failure, now, p, func() { p.do(s, Action{Kind: EnsureImage, Key: "image/" + w.c.Name, Name: w.c.Name}) })
			continue
		}
		if !usable || !s.VolumesReady || starting {
			continue
		}
		retry(s.Failures[w.c.Name], now, p, func() {
			p.do(s, Action{Kind: StartContainer, Key: "start/" + w.c.Name, Name: w.c.Name, ID: box.ID, Attempt: w.attempt,
				ImageRef: img.Ref, Backoff: w.backoff})
			starting = true // one at a time, in the order of the spec
		})
	}
	removeSurplus(s, p)
	return false
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

func planSandbox(s *State, f Facts, now time.Time, p *Plan, needed bool) {
	box := s.Runtime.sandbox()
	for _, c := range s.Runtime.Containers { // containers of a sandbox that is no good go first
		if c.State == Running {
			stopContainer(s, p, &c, now, ending{30 * time.Second, "Pod sandbox changed, it will be killed and re-created."})
			needed = false
		}
	}
	for _, b := range s.Runtime.Sandboxes {
		if b.Ready && (box == nil || b.ID != box.ID || needed) {
			p.do(s, Action{Kind: StopSandbox, Key: "stop-sandbox/" + b.ID, ID: b.ID})
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
	if f.NetworkNotReady != "" && !s.Pod.Spec.HostNetwork {
		p.Events = append(p.Events, Event{Key: "network", Type: v1.EventTypeWarning, Reason: "NetworkNotReady",
			Message: "network is not ready: " + f.NetworkNotReady})
		p.wake(now.Add(time.Second))
		return
	}
	retry(s.Failures[SandboxKey], now, p, func() {
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
func wanted(s *State, now time.Time, f Facts, p *Plan) (next []want, failedInit bool) {
	spec := &s.Pod.Spec
	for i := range spec.EphemeralContainers {
		c := v1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		if cur, _ := s.Runtime.latest(c.Name); cur == nil {
			next = append(next, want{c: &c})
		}
	}
	box := s.Runtime.sandbox()
	appsSeen := false
	for _, c := range spec.Containers {
		if cur, _ := s.Runtime.latest(c.Name); cur != nil && (box == nil || cur.SandboxID == box.ID) && cur.State != Created {
			appsSeen = true
		}
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if isSidecar(c) {
			w, up := sidecar(s, c, now, f, p)
			if w != nil {
				next = append(next, *w)
			}
			if !up && !appsSeen {
				return next, false
			}
			continue
		}
		if appsSeen {
			continue
		}
		w, done, failed := initStep(s, c, now, f, p)
		if failed {
			return nil, true
		}
		if w != nil {
			next = append(next, *w)
		}
		if !done {
			return next, false
		}
	}
	for i := range spec.Containers {
		if w := app(s, &spec.Containers[i], now, f, p); w != nil {
			next = append(next, *w)
		}
	}
	return next, false
}

func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// sidecar plans an init container that runs along; up tells whether the containers after it may start.
func sidecar(s *State, c *v1.Container, now time.Time, f Facts, p *Plan) (w *want, up bool) {
	cur, _ := s.Runtime.latest(c.Name)
	if cur != nil && cur.State == Running {
		return nil, started(s, c, cur)
	}
	return restart(s, c, cur, now, f, p), false
}

// initStep plans a regular init container.
func initStep(s *State, c *v1.Container, now time.Time, f Facts, p *Plan) (w *want, done, failed bool) {
	cur, _ := s.Runtime.latest(c.Name)
	box := s.Runtime.sandbox()
	fresh := cur != nil && box != nil && cur.SandboxID != box.ID // it ran for a sandbox that is gone: once more
	switch {
	case cur != nil && cur.State == Running:
		return nil, false, false
	case cur != nil && !fresh && cur.State == Exited && cur.ExitCode == 0:
		return nil, true, false
	case cur != nil && cur.State == Exited && cur.ExitCode != 0 && s.Pod.Spec.RestartPolicy == v1.RestartPolicyNever:
		return nil, false, true
	}
	return restart(s, c, cur, now, f, p), false, false
}

// app plans one regular container.
func app(s *State, c *v1.Container, now time.Time, f Facts, p *Plan) *want {
	cur, _ := s.Runtime.latest(c.Name)
	if cur == nil || cur.State == Created {
		return restart(s, c, cur, now, f, p)
	}
	if cur.State == Running {
		probe := s.Probes[c.Name]
		switch {
		case cur.Hash != "" && cur.Hash != Hash(c):
			stopContainer(s, p, cur, now, ending{grace(s), fmt.Sprintf("Container %s definition changed, will be restarted", c.Name)})
		case probe.ContainerID == cur.ID && probe.Live != nil && !*probe.Live:
			stopContainer(s, p, cur, now, ending{grace(s), fmt.Sprintf("Container %s %s, will be restarted", c.Name, probe.Message)})
		}
		return nil
	}
	if !restartable(s.Pod, c, cur) {
		return nil
	}
	return restart(s, c, cur, now, f, p)
}

// restartable tells whether the policy lets an exited container run again. A changed definition always does.
func restartable(pod *v1.Pod, c *v1.Container, cur *Container) bool {
	if cur == nil || cur.State != Exited {
		return true
	}
	if cur.Hash != "" && cur.Hash != Hash(c) {
		return true
	}
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		policy = v1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return cur.ExitCode != 0
	}
	return true
}

// restart wants c to run once more after cur, or plans the wake-up at the end of its back-off.
func restart(s *State, c *v1.Container, cur *Container, now time.Time, f Facts, p *Plan) *want {
	switch {
	case cur == nil:
		return &want{c: c, attempt: lostAttempts(s, c.Name)}
	case cur.State == Created: // made but never started, for example because the kubelet was killed in between
		if !s.inFlight("start/" + c.Name) {
			p.do(s, Action{Kind: RemoveContainer, Key: "remove/" + cur.ID, ID: cur.ID, Name: c.Name})
		}
		return nil
	}
	at, entry := nextStart(backoffOf(s, c.Name, cur, f), cur.FinishedAt, f)
	if now.Before(at) {
		p.wake(at)
		p.Events = append(p.Events, Event{Key: cur.ID, Type: v1.EventTypeWarning, Reason: "BackOff", Container: c.Name,
			Message: fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", c.Name, s.Pod.Name, s.Pod.Namespace, s.Pod.UID)})
		return nil
	}
	entry.At = now
	return &want{c: c, attempt: cur.Attempt + 1, backoff: &entry}
}

// lostAttempts continues the count of a container whose instances the runtime has lost (a reboot, for example).
func lostAttempts(s *State, name string) uint32 {
	if old := findStatus(s, name); old != nil && old.ContainerID != "" {
		return uint32(old.RestartCount) + 1
	}
	return 0
}

// backoffOf is the back-off entry of a container. A kubelet that has just started reads it from what its predecessor
// published: only a container that was seen in back-off is held back.
func backoffOf(s *State, name string, cur *Container, f Facts) Backoff {
	b, ok := s.Backoffs[name]
	old := findStatus(s, name)
	if ok || cur.Attempt == 0 || old == nil || old.State.Waiting == nil || old.State.Waiting.Reason != "CrashLoopBackOff" {
		return b
	}
	delay, limit := orDefault(f.InitialBackoff, 10*time.Second), orDefault(f.MaxBackoff, 300*time.Second)
	return Backoff{Delay: min(delay<<min(cur.Attempt-1, 10), limit), At: cur.StartedAt}
}

func orDefault(d, other time.Duration) time.Duration {
	if d == 0 {
		return other
	}
	return d
}

// nextStart is when a container that ended at finished may start again, and the back-off entry that then holds. The
// first restart is immediate; ten quiet minutes forget everything.
func nextStart(b Backoff, finished time.Time, f Facts) (time.Time, Backoff) {
	first, limit := orDefault(f.InitialBackoff, 10*time.Second), orDefault(f.MaxBackoff, 300*time.Second)
	if b.Delay == 0 || finished.Sub(b.At) > 2*limit {
		return finished, Backoff{Delay: min(first, limit)}
	}
	return finished.Add(b.Delay), Backoff{Delay: min(2*b.Delay, limit)}
}

func removeSurplus(s *State, p *Plan) {
	dead := map[string]int{}
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
			dead[c.Name]++
			p.do(s, Action{Kind: RemoveContainer, Key: "remove/" + c.ID, ID: c.ID, Name: c.Name})
		}
	}
	box := s.Runtime.sandbox()
	for _, b := range s.Runtime.Sandboxes {
		if b.ID != box.ID && !b.Ready && !s.Runtime.uses(b.ID) {
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

// Hash names what a container must be restarted for: its name and image.
func Hash(c *v1.Container) string {
	text, _ := json.Marshal(struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	}{c.Name, c.Image})
	h := fnv.New32a()
	h.Write(text)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

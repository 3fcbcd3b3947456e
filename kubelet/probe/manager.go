package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/wakeup"
)

// Options configure a Manager. Exec and Report are required.
type Options struct {
	// Exec runs a command in a container (CRI ExecSync). Its error for a timeout is context.DeadlineExceeded or that
	// of gRPC.
	Exec func(ctx context.Context, containerID string, command []string, timeout time.Duration) (exit int, out []byte,
		err error)
	// Report is called when a status changes. It must not block.
	Report func(Result)
	// Event records an event, Unhealthy or ProbeWarning; may be nil.
	Event func(pod *v1.Pod, container, eventType, reason, message string)
	// Measure is called for each probe that ran; result is successful, failed or unknown. May be nil.
	Measure func(pod *v1.Pod, container, kind, result string, took time.Duration)
	// UserAgent is that of http and grpc probes; kube-probe/1.36 if it is empty.
	UserAgent string
	// Spread is how long after the start of the kubelet the first run of a probe is delayed by a random part of its
	// period, since many containers are to be probed at once then. Zero is no delay.
	Spread time.Duration
}

// Result is one status about one container.
type Result struct {
	Key         Key
	Kind        Kind
	ContainerID string
	Status      Status
	Message     string
	// GracePeriod is the probe's, in seconds. It replaces the pod's if this status kills the container; nil if it is
	// not set.
	GracePeriod *int64
}

// Key names a container of a pod.
type Key struct {
	Pod       types.UID
	Container string
}

// Manager runs probes. It is safe for concurrent use.
type Manager struct {
	opts  Options
	began time.Time

	mu     sync.Mutex
	active map[Key]*workers
}

// workers are the probes of one container instance.
type workers struct {
	id      string
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	statuses map[Kind]Status
	started  chan struct{} // closed once the container counts as started
	stopped  map[Kind]context.CancelFunc
}

// New returns a Manager without probes.
func New(opts Options) *Manager {
	if opts.UserAgent == "" {
		opts.UserAgent = "kube-probe/1.36"
	}
	return &Manager{opts: opts, began: time.Now(), active: map[Key]*workers{}}
}

// Start begins to probe a container that has just started. It does nothing if this container is probed already, and
// ends the probes of a previous container of key. podIP is the pod's current address.
func (m *Manager) Start(key Key, pod *v1.Pod, c *v1.Container, containerID, podIP string) {
	m.StartTarget(key, Target{Pod: pod, Container: c, ID: containerID, PodIP: podIP, Started: time.Now()})
}

// Target is the container that is probed. Initial delays count from Started, the time of its start.
type Target struct {
	Pod       *v1.Pod
	Container *v1.Container
	ID, PodIP string
	Started   time.Time
	// AlreadyStarted means that its startup probe succeeded under an earlier kubelet, by the status in the API.
	AlreadyStarted bool
}

// StartTarget is Start for a container that an earlier kubelet may have started.
func (m *Manager) StartTarget(key Key, t Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.active[key]; w != nil {
		if w.id == t.ID {
			return
		}
		w.cancel()
	}

	ctx, cancel := context.WithCancel(context.Background())
	w := &workers{id: t.ID, cancel: cancel, statuses: map[Kind]Status{}, started: make(chan struct{}),
		stopped: map[Kind]context.CancelFunc{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	m.active[key] = w

	startup := t.Container.StartupProbe
	if startup != nil && t.AlreadyStarted {
		startup, w.statuses[Startup] = nil, Success
	}
	if startup == nil {
		close(w.started)
	}

	for kind, p := range map[Kind]*v1.Probe{Startup: startup, Liveness: t.Container.LivenessProbe,
		Readiness: t.Container.ReadinessProbe} {
		if p == nil {
			continue
		}
		w.statuses[kind] = kind.initial()
		one, stop := context.WithCancel(ctx)
		w.stopped[kind] = stop
		tr := NewTracker(kind, p, t.Started)
		w.running.Go(func() { m.work(one, key, t, job{workers: w, probe: p, tracker: tr}) })
	}
}

// Stop ends all probes of a container.
func (m *Manager) Stop(key Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.active[key]; w != nil {
		w.cancel()
		delete(m.active, key)
	}
}

// StopPod ends all probes of a pod.
func (m *Manager) StopPod(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, w := range m.active {
		if key.Pod == pod {
			w.cancel()
			delete(m.active, key)
		}
	}
}

// Terminating ends startup and liveness probes of a pod that is being deleted; readiness goes on until Stop.
func (m *Manager) Terminating(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, w := range m.active {
		if key.Pod != pod {
			continue
		}
		for _, kind := range []Kind{Startup, Liveness} {
			if stop := w.stopped[kind]; stop != nil {
				stop()
			}
		}
	}
}

// Status returns the current status about a container. known is false if there is no such probe.
func (m *Manager) Status(key Key, kind Kind) (v Status, known bool) {
	m.mu.Lock()
	w := m.active[key]
	m.mu.Unlock()
	if w == nil {
		return Unknown, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	v, known = w.statuses[kind]
	return v, known
}

// job is one probe at work.
type job struct {
	workers *workers
	probe   *v1.Probe
	tracker *Tracker
}

// work runs one probe until ctx ends or the probe is decided.
func (m *Manager) work(ctx context.Context, key Key, t Target, j job) {
	if j.tracker.kind != Startup {
		select {
		case <-ctx.Done():
			return
		case <-j.workers.started:
		}
	}

	period := j.tracker.spec.period
	if m.opts.Spread > 0 && time.Since(m.began) < min(period, m.opts.Spread) && !wakeup.Pause(ctx, rand.N(period)) {
		return
	}
	if wait := time.Until(j.tracker.started.Add(j.tracker.spec.delay)); wait > 0 && !wakeup.Pause(ctx, wait) {
		return
	}

	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		m.once(ctx, key, t, j)
		if j.tracker.Ended() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// once runs a probe once and reports its status if that has changed.
func (m *Manager) once(ctx context.Context, key Key, t Target, j job) {
	kind := j.tracker.kind
	var out outcome
	var err error
	began := time.Now()
	for range maxAttempts {
		if out, err = m.guarded(ctx, j.probe, t); err == nil || ctx.Err() != nil {
			break
		}
	}

	if ctx.Err() != nil {
		return
	}
	m.measure(t, key, measured{kind, out.ok, err, time.Since(began)})

	switch {
	case err != nil:
		klog.FromContext(ctx).V(1).
			Info("Could not run probe", "pod", klog.KObj(t.Pod), "container", key.Container, "probe", kind, "err", err)
		m.event(t, key, "Unhealthy", string(kind)+" probe errored and resulted in unknown state: "+err.Error())
		return
	case out.warning:
		m.event(t, key, "ProbeWarning", string(kind)+" probe warning: "+out.text)
	case !out.ok:
		m.event(t, key, "Unhealthy", string(kind)+" probe failed: "+out.text)
	}

	before := j.tracker.Status()
	if !j.tracker.Observe(out.ok) {
		return
	}

	now := j.tracker.Status()
	w := j.workers
	w.mu.Lock()
	w.statuses[kind] = now
	if kind == Startup && now == Success {
		close(w.started)
	}
	w.mu.Unlock()
	if now != before {
		m.opts.Report(Result{Key: key, Kind: kind, ContainerID: t.ID, Status: now, Message: out.text,
			GracePeriod: j.probe.TerminationGracePeriodSeconds})
	}
}

// guarded is run. A panic in it is an error of this probe only.
func (m *Manager) guarded(ctx context.Context, p *v1.Probe, t Target) (out outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			out = outcome{}
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	return m.run(ctx, p, t)
}

func (m *Manager) measure(t Target, key Key, o measured) {
	if m.opts.Measure == nil {
		return
	}
	result := "failed"
	if o.err != nil {
		result = "unknown"
	} else if o.ok {
		result = "successful"
	}
	m.opts.Measure(t.Pod, key.Container, string(o.kind), result, o.took)
}

// measured is one probe that ran.
type measured struct {
	kind Kind
	ok   bool
	err  error
	took time.Duration
}

func (m *Manager) event(t Target, key Key, reason, message string) {
	if m.opts.Event != nil {
		m.opts.Event(t.Pod, key.Container, v1.EventTypeWarning, reason, message)
	}
}

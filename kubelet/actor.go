package kubelet

import (
	"context"
	"maps"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/probe"
	"porthole.dev/porthole/kubelet/runtime"
)

// actor owns the state of one pod.
type actor struct {
	k   *Kubelet
	uid types.UID

	mu    sync.Mutex
	inbox []fact
	bell  chan struct{} // one slot: something is in the inbox, or it is time to look

	state pod.State // only the actor's goroutine, once it runs
	// sourcesReady: a pod without a desired state is an orphan.
	sourcesReady bool
	removed      map[string]bool // ids that are gone for good; late events may still name them
	told         map[string]bool // events that were sent
	cancels      map[string]context.CancelFunc
	users        map[string]runtime.ImageUser  // by container name
	onces        map[string]bool               // under mu
	preStops     map[string]*preStopRun        // by container id
	postStarts   map[string]context.CancelFunc // by container id
	looked       *v1.Pod                       // the pod as the last look saw it
	desired      *v1.Pod                       // the pod as its source has it
	shaped       *v1.Pod                       // desired with the resources that the node agreed to
	panics       int                           // turns in a row that ended in a panic
	reconcile    func(*pod.State, pod.Facts, time.Time) pod.Plan
	view         atomic.Pointer[pod.View]
	known        atomic.Pointer[pod.Runtime] // the state's, for those outside the actor; never changed
	mirror       types.UID                   // that got the status of a static pod last
	seen         string                      // when the node learned of the pod, as an annotation
	born         time.Time                   // the same, as a time
	counted, ran bool                        // once; for figures only
	pulled       atomic.Bool
	mingled      bool // counted in the crowd
}

func newActor(k *Kubelet, uid types.UID) *actor {
	return &actor{k: k, uid: uid, born: time.Now(), seen: time.Now().Format(time.RFC3339Nano), bell: make(chan struct{}, 1), removed: map[string]bool{}, told: map[string]bool{},
		cancels: map[string]context.CancelFunc{}, users: map[string]runtime.ImageUser{}, preStops: map[string]*preStopRun{},
		postStarts: map[string]context.CancelFunc{}, reconcile: pod.Reconcile,
		state: pod.State{PostStart: map[string]pod.PostStart{}, Images: map[string]pod.Image{}, Failures: map[string]*pod.Failure{}, Backoffs: map[string]pod.Backoff{},
			Probes: map[string]pod.Probe{}, InFlight: map[string]time.Time{}}}
}

// post hands a fact to the actor. It never blocks.
func (a *actor) post(f fact) {
	a.mu.Lock()
	a.inbox = append(a.inbox, f)
	a.mu.Unlock()
	a.wake()
}

func (a *actor) wake() {
	select {
	case a.bell <- struct{}{}:
	default:
	}
}

func (a *actor) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.bell:
		case <-timer.C:
		}
		next, done := a.turn(ctx)
		if done {
			return
		}
		timer.Reset(next)
	}
}

// take returns the oldest fact of the inbox, or nil. A fact that ends in a panic is not seen again.
func (a *actor) take() (f fact) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.inbox) > 0 {
		f, a.inbox = a.inbox[0], a.inbox[1:]
	}
	return f
}

// turn takes in what is new and looks at the pod. A panic in it concerns this pod only.
func (a *actor) turn(ctx context.Context) (next time.Duration, finished bool) {
	defer func() {
		if r := recover(); r != nil {
			next, finished = a.poisoned(ctx, r), false
		}
	}()
	for f := a.take(); f != nil; f = a.take() {
		f(&a.state)
	}
	a.known.Store(a.state.Runtime)
	next, finished = a.look(ctx)
	a.panics = 0
	return next, finished
}

// resync is how long an actor rests when it has nothing to wait for.
const resync = 75 * time.Second

// look runs one reconcile pass and starts what it asks for.
func (a *actor) look(ctx context.Context) (next time.Duration, finished bool) {
	s := &a.state
	if s.Pod == nil && !a.sourcesReady {
		return resync, false
	}
	began := time.Now()
	defer func() {
		a.k.o.Meter.Worker(!a.counted, time.Since(began), began.Sub(a.born))
		a.counted = true
	}()
	a.allocate(ctx)
	a.podIsNew()
	a.k.admission(a)
	a.endHooks()
	a.watchProbes()
	now := time.Now()
	plan := a.reconcile(s, a.k.facts(), now)
	a.assert(ctx, &plan)
	if plan.Stopping && s.StopSince.IsZero() {
		s.StopSince = now
		a.cancelStarts()
		a.k.probes.Terminating(a.uid)
	}
	if plan.Stopped {
		a.k.admit.release(a.uid)
	}
	a.publish(&plan)
	for _, e := range plan.Events {
		if key := e.Key + "/" + e.Reason; !a.told[key] && s.Pod != nil {
			a.told[key] = true
			a.k.o.API.PodEvent(s.Pod, e.Container, e.Type, e.Reason, e.Message)
		}
	}
	if log := klog.FromContext(ctx).V(4); log.Enabled() && len(plan.Actions) > 0 {
		log.Info("Pod plan", "pod", a.uid, "plan", plan.Dump())
	}
	for _, action := range plan.Actions {
		a.start(ctx, action)
	}
	a.mingle()
	if plan.Finished {
		if a.mingled { // its volumes were being made still
			a.k.crowd.leave()
		}
		a.k.probes.StopPod(a.uid)
		a.k.o.Images.Forget(string(a.uid))
		a.k.finished(a)
		return 0, true
	}
	next = resync
	if !plan.NextWake.IsZero() {
		next = min(next, max(time.Until(plan.NextWake), time.Millisecond))
	}
	return next, false
}

// publish hands the status on: to the API, and to those who read the view.
func (a *actor) publish(plan *pod.Plan) {
	s := &a.state
	if s.Pod == nil || s.Runtime == nil {
		return
	}
	if s.Static {
		a.publishMirror(plan)
	} else if !s.Gone {
		known := s.Last
		if known == nil {
			known = &s.Pod.Status
		}
		urgent := (known.Phase != plan.Status.Phase || isReady(known) != isReady(&plan.Status) && !restarting(plan)) && !vanishing(s.Pod)
		if s.Last == nil || plan.Delete || !reflect.DeepEqual(*s.Last, plan.Status) {
			a.k.status.Set(s.Pod, plan.Status, plan.Delete, urgent)
		}
	}
	st := plan.Status
	if !a.ran && st.Phase == v1.PodRunning {
		if a.ran = true; s.Last != nil && s.Last.Phase == v1.PodPending {
			a.k.o.Meter.Running(s.Pod, a.born, time.Now(), a.pulled.Load())
		}
	}
	s.Last = &st
	a.view.Store(s.View(st))
}

// restarting tells whether a pod that goes on waits for a container of its own to run again, which is soon over: then its
// not being ready is not worth a message of its own.
func restarting(plan *pod.Plan) bool {
	if plan.Stopping || isReady(&plan.Status) {
		return false
	}
	for _, c := range plan.Status.ContainerStatuses {
		if c.State.Running == nil && (c.State.Terminated != nil || c.LastTerminationState.Terminated != nil) {
			return true
		}
	}
	return false
}

// vanishing tells whether the pod was deleted without any grace: then the API forgets it at once, unless a finalizer keeps
// it, and what becomes of it here is soon of no interest.
func vanishing(p *v1.Pod) bool {
	return p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
}

func isReady(st *v1.PodStatus) bool {
	for _, c := range st.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// watchProbes starts the probes of running containers and ends those of others.
func (a *actor) watchProbes() {
	s := &a.state
	if s.Pod == nil || s.Runtime == nil {
		return
	}
	ip := a.podIP()
	for _, list := range [][]v1.Container{s.Pod.Spec.InitContainers, s.Pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if c.ReadinessProbe == nil && c.LivenessProbe == nil && c.StartupProbe == nil {
				continue
			}
			key := probe.Key{Pod: a.uid, Container: c.Name}
			cur, ok := s.Runtime.Latest(c.Name)
			if !ok || cur.State != pod.Running {
				a.k.probes.Stop(key)
				continue
			}
			hook := s.PostStart[c.Name]
			if !s.StopSince.IsZero() || hook.ContainerID == cur.ID && !hook.Done {
				continue // a pod that ends keeps the readiness probes that it has; others wait for the hook
			}
			t := probe.Target{Pod: s.Pod, Container: c, ID: cur.ID, PodIP: ip, Started: cur.StartedAt}
			if s.Probes[c.Name].ContainerID != cur.ID {
				a.adoptProbe(c.Name, cur.ID, &t)
			}
			a.k.probes.StartTarget(key, t)
		}
	}
}

// adoptProbe takes over what an earlier kubelet had found out about a container that still runs.
func (a *actor) adoptProbe(name, id string, t *probe.Target) {
	for _, list := range [][]v1.ContainerStatus{a.state.Pod.Status.ContainerStatuses, a.state.Pod.Status.InitContainerStatuses} {
		for _, old := range list {
			if old.Name != name || old.State.Running == nil || old.ContainerID != a.k.version.Load().Name+"://"+id {
				continue
			}
			p := pod.Probe{ContainerID: id}
			if old.Started != nil && *old.Started {
				yes := true
				p.Started, t.AlreadyStarted = &yes, true
			}
			if old.Ready {
				ready := true
				p.Ready = &ready
			}
			a.state.Probes[name] = p
			a.wake()
			return
		}
	}
}

// podIP is the main address of the pod as it is now.
func (a *actor) podIP() string {
	if b, ok := a.state.Runtime.Sandbox(); ok && len(b.IPs) > 0 {
		return b.IPs[0]
	}
	if len(a.k.o.Node.IPs) > 0 {
		return a.k.o.Node.IPs[0]
	}
	return ""
}

// podIsNew notices what changed in the desired pod: images are asked for anew, and what failed may work now.
func (a *actor) podIsNew() {
	s, before := &a.state, a.looked
	a.looked = s.Pod
	if s.Pod == nil || before == nil || before == s.Pod {
		return
	}
	if before.Generation == s.Pod.Generation && maps.Equal(before.Labels, s.Pod.Labels) && maps.Equal(before.Annotations, s.Pod.Annotations) {
		return
	}
	for name := range s.Images {
		if strings.HasPrefix(name, "/") {
			continue // of a volume, which cannot change
		}
		if was, is := findContainer(before, name), findContainer(s.Pod, name); was == nil || is == nil || was.Image != is.Image {
			delete(s.Images, name)
		}
	}
	for key, f := range s.Failures {
		if findContainer(s.Pod, key) != nil {
			again := *f
			again.RetryAt = time.Time{}
			s.Failures[key] = &again
		}
	}
}

func (a *actor) withoutRemoved(r *pod.Runtime) *pod.Runtime {
	for id := range a.removed {
		r = r.Without(id)
	}
	return r
}

// mingle counts the pod among those that are set up at the moment, while it is.
func (a *actor) mingle() {
	switch now := a.state.SettingUp(); {
	case now && !a.mingled:
		a.k.crowd.enter()
	case !now && a.mingled:
		a.k.crowd.leave()
	default:
		return
	}
	a.mingled = !a.mingled
}

// cancelStarts ends waits (not calls to the runtime) that would only delay the end of the pod.
func (a *actor) cancelStarts() {
	for key, cancel := range a.cancels {
		if strings.HasPrefix(key, "image/") || key == pod.VolumesKey {
			cancel()
		}
	}
}

package kubelet

import (
	"context"
	"reflect"
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
	users        map[string]runtime.ImageUser // by container name
	onces        map[string]bool              // under mu
	view         atomic.Pointer[PodView]
}

func newActor(k *Kubelet, uid types.UID) *actor {
	return &actor{k: k, uid: uid, bell: make(chan struct{}, 1), removed: map[string]bool{}, told: map[string]bool{},
		cancels: map[string]context.CancelFunc{}, users: map[string]runtime.ImageUser{},
		state: pod.State{Images: map[string]pod.Image{}, Failures: map[string]*pod.Failure{}, Backoffs: map[string]pod.Backoff{},
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
		a.mu.Lock()
		facts := a.inbox
		a.inbox = nil
		a.mu.Unlock()
		for _, f := range facts {
			f(&a.state)
		}
		next, done := a.look(ctx)
		if done {
			return
		}
		timer.Reset(next)
	}
}

// resync is how long an actor rests when it has nothing to wait for.
const resync = 75 * time.Second

// look runs one reconcile pass and starts what it asks for.
func (a *actor) look(ctx context.Context) (next time.Duration, finished bool) {
	s := &a.state
	if s.Pod == nil && !a.sourcesReady {
		return resync, false
	}
	a.k.admission(a)
	a.watchProbes()
	now := time.Now()
	plan := pod.Reconcile(s, a.k.facts(), now)
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
	if plan.Finished {
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
	if !s.Gone {
		known := s.Last
		if known == nil {
			known = &s.Pod.Status
		}
		urgent := known.Phase != plan.Status.Phase || isReady(known) != isReady(&plan.Status)
		if s.Last == nil || plan.Delete || !reflect.DeepEqual(*s.Last, plan.Status) {
			a.k.status.Set(s.Pod, plan.Status, plan.Delete, urgent)
		}
	}
	st := plan.Status
	s.Last = &st
	shown := *s.Pod
	shown.Status = st
	v := &PodView{Pod: &shown, Containers: map[string]ContainerView{}, Logs: map[string]string{}}
	if b, ok := s.Runtime.Sandbox(); ok {
		v.SandboxID = b.ID
	}
	for _, c := range s.Runtime.Containers {
		v.Logs[c.ID] = c.LogPath
		if newest, _ := s.Runtime.Latest(c.Name); newest.ID == c.ID {
			v.Containers[c.Name] = ContainerView{ID: c.ID, LogPath: c.LogPath, Running: c.State == pod.Running, Attempt: c.Attempt}
		}
	}
	a.view.Store(v)
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
	if s.Pod == nil || s.Runtime == nil || !s.StopSince.IsZero() {
		return
	}
	var ip string
	if b, ok := s.Runtime.Sandbox(); ok && len(b.IPs) > 0 {
		ip = b.IPs[0]
	} else if len(a.k.o.NodeIPs) > 0 {
		ip = a.k.o.NodeIPs[0]
	}
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

func (a *actor) withoutRemoved(r *pod.Runtime) *pod.Runtime {
	for id := range a.removed {
		r = r.Without(id)
	}
	return r
}

// cancelStarts ends waits (not calls to the runtime) that would only delay the end of the pod.
func (a *actor) cancelStarts() {
	for key, cancel := range a.cancels {
		if len(key) > 5 && key[:6] == "image/" || key == "volumes" {
			cancel()
		}
	}
}

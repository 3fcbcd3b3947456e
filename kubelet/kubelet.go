package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/probe"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/static"
	"porthole.dev/porthole/kubelet/status"
	"porthole.dev/porthole/kubelet/volume"
)

// How often the runtime is asked for everything: to notice what its events missed, and when it has no events.
const (
	auditPeriod = 5 * time.Minute
	pollPeriod  = time.Second
)

// Kubelet routes facts to the actors of pods.
type Kubelet struct {
	o      Options
	status *status.Writer
	probes *probe.Manager
	admit  *admitter
	crowd  *crowd
	// joined: all pods of the API were delivered once. New ones are not admitted before, for an earlier kubelet may have given
	// what they want to others.
	joined atomic.Bool
	// statics are the pods that do not come from the API, and their mirrors there.
	statics *statics
	sysctls *sysctlRules

	version atomic.Pointer[runtime.Version]
	health  atomic.Pointer[runtime.Health]
	node    *nodestatus.Node
	began   time.Time
	// answered is when the runtime last said how it is, turned when the loop that asks it last went round.
	answered, turned atomic.Pointer[time.Time]

	mu      sync.Mutex
	actors  map[types.UID]*actor
	audited bool // the runtime was read once
	// auditing: an audit is about to begin.
	auditing atomic.Bool
	// unmounting: forgotten mounts are about to be looked for.
	unmounting atomic.Bool
	// sourcesReady: all pods that should run are known, so that others are orphans.
	sourcesReady bool
	ctx          context.Context
	running      sync.WaitGroup
}

// New makes a kubelet that does nothing yet.
func New(o Options) *Kubelet {
	if o.Cgroups == nil {
		o.Cgroups = cgroup.None{}
	}
	k := &Kubelet{o: o, status: status.New(o.API), actors: map[types.UID]*actor{}, began: time.Now()}
	k.admit, k.statics, k.crowd = newAdmitter(), newStatics(len(o.Static)), newCrowd(o.Crowd)
	kernel := o.Node.Host.KernelVersion
	if o.Windows {
		kernel = ""
	}
	k.node = nodestatus.New(o.Node, k.nodeLinks())
	k.sysctls = newSysctlRules(kernel, o.UnsafeSysctls)
	k.admit.granted = func(uid types.UID) {
		if a := k.actor(uid, false); a != nil {
			a.wake()
		}
	}
	k.probes = probe.New(probe.Options{Exec: o.Runtime.Exec, Report: k.probed, Event: o.API.PodEvent, Measure: o.Meter.Probe})
	return k
}

// Run registers the node and runs its pods until ctx ends. Containers go on without it. Static pods run before the API
// server answers, for it may be one of them; without one (Standalone) they are all that there is.
func (k *Kubelet) Run(ctx context.Context) error {
	k.ctx = ctx
	if err := k.waitForRuntime(ctx); err != nil {
		return err
	}
	k.node.Begin()
	k.running.Go(func() { k.watchRuntime(ctx) })
	k.running.Go(func() { k.status.Run(ctx) })
	k.running.Go(func() { k.follow(ctx) })
	k.running.Go(func() { k.collectImages(ctx) })
	k.running.Go(func() { k.node.WatchPressure(ctx) })
	k.runStatic(ctx)
	if !k.o.Standalone {
		if err := k.join(ctx); err != nil {
			return err
		}
	}
	klog.FromContext(ctx).Info("Kubelet runs", "node", k.o.Node.Name)
	k.running.Go(func() { k.cleanOrphans(ctx) })
	<-ctx.Done()
	k.drain()
	return nil
}

// join registers the node and follows the API. It returns when all pods of the API are known.
func (k *Kubelet) join(ctx context.Context) error {
	if err := k.node.Register(ctx); err != nil {
		return err
	}
	k.node.Announce()
	k.running.Go(func() { k.o.API.RunLease(ctx, k.o.LeaseSeconds) })
	k.running.Go(func() { k.node.Run(ctx) })
	services := k.o.API.WatchServices(ctx)
	if err := until(ctx, services); err != nil {
		return err
	}
	synced := k.o.API.Pods(ctx, contained(ctx, "taking in a pod", k.podChanged), contained(ctx, "letting go of a pod", k.podGone))
	if err := until(ctx, synced); err != nil {
		return err
	}
	k.joined.Store(true)
	k.each(func(a *actor) { a.wake() })
	k.running.Go(func() { k.runMirrors(ctx) })
	return nil
}

// drain lets what is under way end, but not for long: the next kubelet finds everything in the runtime.
func (k *Kubelet) drain() {
	done := make(chan struct{})
	go func() {
		k.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
	}
}

// until waits for an answer that turns true soon after a start.
func until(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

func (k *Kubelet) waitForRuntime(ctx context.Context) error {
	v, err := k.o.Runtime.Version(ctx) // waits until the runtime can be reached
	for err != nil {
		klog.FromContext(ctx).Error(err, "Runtime does not answer yet")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		v, err = k.o.Runtime.Version(ctx)
	}
	k.version.Store(&v)
	k.checkRuntime(ctx)
	return nil
}

// runtimePatience is how long a runtime may say nothing before the node is not ready: a restart is shorter. Upstream's is
// the same.
const runtimePatience = 30 * time.Second

// checkRuntime asks the runtime how it is and passes on what has changed.
func (k *Kubelet) checkRuntime(ctx context.Context) {
	h, err := k.o.Runtime.Health(ctx)
	if err != nil {
		if last := k.answered.Load(); last != nil && time.Since(*last) < runtimePatience {
			return
		}
		h = runtime.Health{RuntimeMessage: "container runtime is down: " + err.Error(), NetworkMessage: err.Error()}
	} else {
		now := time.Now()
		k.answered.Store(&now)
	}
	before := k.health.Swap(&h)
	if before == nil || before.NetworkReady != h.NetworkReady || before.RuntimeReady != h.RuntimeReady {
		k.node.ReportSoon()
		if h.NetworkReady {
			k.each(func(a *actor) { a.wake() })
		}
	}
}

// Patience with the loop that watches over all else, as upstream's health check has it.
const loopPatience = 5 * time.Minute

// Healthy is nil as long as the kubelet does its rounds. What is wrong with the node is in the node's status.
func (k *Kubelet) Healthy() error {
	if last := k.turned.Load(); last != nil && time.Since(*last) > loopPatience {
		return fmt.Errorf("sync Loop took longer than expected: its last round was at %s", last.Format(time.RFC3339))
	}
	return nil
}

func (k *Kubelet) each(f func(*actor)) {
	k.mu.Lock()
	list := make([]*actor, 0, len(k.actors))
	for _, a := range k.actors {
		list = append(list, a)
	}
	k.mu.Unlock()
	for _, a := range list {
		f(a)
	}
}

// podChanged takes a pod from the API.
func (k *Kubelet) podChanged(p *v1.Pod) {
	if static.IsMirror(p) {
		k.mirrorChanged(p)
		return
	}
	k.status.Observe(p)
	if !k.joined.Load() && p.Status.StartTime != nil && p.Status.Phase != v1.PodFailed && p.Status.Phase != v1.PodSucceeded {
		k.admit.hold(p) // an earlier kubelet has admitted it: its place is not for others that come in with it
	}
	a := k.actor(p.UID, true)
	p = a.stamped(p)
	k.o.Volumes.Observe(p)
	a.post(func(s *pod.State) { s.Pod, s.Gone = p, false })
}

// stamped is a pod of the API with the annotations by which upstream's kubelet tells sources apart, whatever its own
// annotations claim.
func (a *actor) stamped(p *v1.Pod) *v1.Pod {
	out := *p
	out.Annotations = maps.Clone(p.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[static.SourceAnnotation], out.Annotations[static.SeenAnnotation] = "api", a.seen
	return &out
}

func (k *Kubelet) podGone(p *v1.Pod) {
	if static.IsMirror(p) {
		k.mirrorGone(p)
		return
	}
	k.status.Forget(p.UID)
	if a := k.actor(p.UID, false); a != nil {
		a.post(func(s *pod.State) { s.Pod, s.Gone = a.stamped(p), true })
	}
}

// actor finds the actor of a pod, and with make starts one.
func (k *Kubelet) actor(uid types.UID, make bool) *actor {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.actors[uid]
	if a == nil && make {
		a = newActor(k, uid)
		a.sourcesReady = k.sourcesReady
		k.actors[uid] = a
		if k.audited { // a pod that the node has never seen has nothing in the runtime
			a.state.Runtime = &pod.Runtime{UID: string(uid)}
		}
		k.running.Go(func() { a.run(k.ctx) })
	}
	return a
}

func (k *Kubelet) finished(a *actor) {
	k.mu.Lock()
	delete(k.actors, a.uid)
	k.mu.Unlock()
	k.admit.release(a.uid)
	k.status.Forget(a.uid)
	k.staticFinished(a.uid)
	k.o.Meter.Forget(a.state.Pod)
	k.running.Go(func() {
		if !k.grown() {
			return // the next kubelet finds them
		}
		k.removeSoon(a.uid)
		cleanLinks(k.o.PodLogsDir)
		k.soon(&k.unmounting, unmountPause, k.unmountForgotten)
	})
}

// removeSoon tries for a minute, as a file that the runtime still holds cannot be removed on Windows, unless the pod comes back,
// which static ones do. Then the audits go on.
func (k *Kubelet) removeSoon(uid types.UID) {
	for wait := time.Second; k.actor(uid, false) == nil; wait *= 2 {
		err := k.removeFolders(context.WithoutCancel(k.ctx), uid)
		if err == nil {
			return
		}
		klog.FromContext(k.ctx).Error(err, "Removing the folders of a pod failed", "pod", uid)
		if wait > 30*time.Second {
			return
		}
		select {
		case <-k.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// removeFolders removes what a pod that has ended has on disk. The pod's own folder goes last: by it a later kubelet
// finds what this one could not finish.
func (k *Kubelet) removeFolders(ctx context.Context, uid types.UID) error {
	logs, err := filepath.Glob(filepath.Join(k.o.PodLogsDir, "*_"+string(uid)))
	for _, dir := range logs {
		err = errors.Join(err, volume.RemoveTree(dir))
	}
	if err = errors.Join(err, k.o.Cgroups.RemovePod(uid)); err != nil {
		return err
	}
	return k.o.Volumes.Remove(ctx, uid)
}

// View returns all pods of the node as they are now.
func (k *Kubelet) View() []pod.View {
	var out []pod.View
	k.each(func(a *actor) {
		if v := a.view.Load(); v != nil {
			out = append(out, *v)
		}
	})
	return out
}

// NodeAllocatable is what pods can have of the node.
func (k *Kubelet) NodeAllocatable() v1.ResourceList { return k.node.Allocatable(k.node.Object()) }

// NodeAddresses are the addresses that the node has now.
func (k *Kubelet) NodeAddresses() []v1.NodeAddress { return k.node.Addresses() }

func (k *Kubelet) facts() pod.Facts {
	f := pod.Facts{HostIPs: k.o.Node.IPs, RuntimeName: k.version.Load().Name, MaxBackoff: k.o.MaxBackoff}
	if h := k.health.Load(); h != nil && !h.NetworkReady {
		f.NetworkNotReady = h.NetworkMessage
	}
	return f
}

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/volume"
)

// Waits before something that failed is tried again.
const (
	firstRetry   = 500 * time.Millisecond
	volumeRetry  = 50 * time.Millisecond
	lastRetry    = 15 * time.Second
	lastVolume   = 2 * time.Minute
	sandboxRetry = 5 * time.Second
)

// start runs an action in a goroutine; the fact that it returns is the outcome.
func (a *actor) start(ctx context.Context, action pod.Action) {
	s := &a.state
	p := s.Pod
	task := a.task(action, p)
	s.InFlight[action.Key] = action.Deadline
	if action.Backoff != nil {
		s.Backoffs[action.Name] = *action.Backoff
	}
	ctx, cancel := context.WithCancel(ctx)
	a.cancels[action.Key] = cancel
	a.k.running.Go(func() {
		var outcome fact
		if err := a.guarded(string(action.Kind), func() error { outcome = task(ctx); return nil }); err != nil {
			outcome = func(s *pod.State) { taskFailed(s, action, err) }
		}
		a.post(func(s *pod.State) {
			cancel()
			delete(a.cancels, action.Key)
			delete(s.InFlight, action.Key)
			if outcome != nil {
				outcome(s)
			}
		})
	})
}

// task is what an action does. It gets copies of what it needs, because it runs beside the actor.
func (a *actor) task(x pod.Action, p *v1.Pod) func(context.Context) fact {
	rt := a.k.o.Runtime
	switch x.Kind {
	case pod.PrepareVolumes:
		return func(ctx context.Context) fact { return a.prepareVolumes(ctx, p) }
	case pod.CreateSandbox:
		return func(ctx context.Context) fact { return a.createSandbox(ctx, p, x.Attempt) }
	case pod.EnsureImage:
		return func(ctx context.Context) fact { return a.ensureImage(ctx, p, x) }
	case pod.StartContainer:
		var ips []string
		if b, ok := a.state.Runtime.Sandbox(); ok {
			ips = b.IPs
		}
		f := startFacts{podIPs: ips, user: a.images(x.Name), target: a.targets(p, x.Name), volumes: a.imageVolumes(p)}
		return func(ctx context.Context) fact { return a.startContainer(ctx, p, x, f) }
	case pod.StopContainer:
		h := a.hookBefore(x)
		return func(ctx context.Context) fact { return a.stopContainer(ctx, p, x, h) }
	case pod.RemoveContainer:
		gone, _ := a.state.Runtime.Find(x.ID)
		return func(ctx context.Context) fact {
			return a.remove(ctx, x, func(ctx context.Context, id string) error {
				err := errors.Join(rt.RemoveContainer(ctx, id), a.removeLog(gone))
				if gone.StartedAt.IsZero() { // a start that was cut short leaves a process that waits
					err = errors.Join(err, a.k.o.Cgroups.RemoveContainer(a.uid, id))
				}
				return err
			})
		}
	case pod.RemoveSandbox:
		return func(ctx context.Context) fact { return a.remove(ctx, x, rt.RemoveSandbox) }
	case pod.StopSandbox:
		return func(ctx context.Context) fact { return a.stopSandbox(ctx, p, x) }
	case pod.ResizePod:
		limits := a.memoryLimits(x)
		return func(ctx context.Context) fact { return a.resizePod(ctx, p, x, limits) }
	case pod.Cleanup:
		return func(ctx context.Context) fact { return a.cleanUp(ctx, p) }
	}
	return func(context.Context) fact { return nil }
}

// fail notes a failure under key; waits double from first to last.
func fail(s *pod.State, key string, err error, reason string, wait time.Duration) {
	count := 1
	if old := s.Failures[key]; old != nil {
		count = old.Count + 1
	}
	wait = min(wait<<min(count-1, 10), lastRetry)
	s.Failures[key] = &pod.Failure{Reason: reason, Message: err.Error(), RetryAt: time.Now().Add(wait), Count: count}
}

func (a *actor) event(p *v1.Pod, container, kind, reason, message string) {
	if p != nil {
		a.k.o.API.PodEvent(p, container, kind, reason, message)
	}
}

func (a *actor) prepareVolumes(ctx context.Context, p *v1.Pod) fact {
	err := a.k.o.Volumes.Prepare(ctx, p, volume.Facts{Allocatable: a.k.NodeAllocatable()})
	cancelled := ctx.Err() != nil // the context ends with the task, before the fact is taken up
	return func(s *pod.State) {
		if err == nil {
			s.VolumesReady, s.VolumeFailure = true, nil
			return
		}
		count := 1
		if s.VolumeFailure != nil {
			count = s.VolumeFailure.Count + 1
		}
		// The API server's authorizer learns of a new pod a moment after this node did, and refuses the pod's token until
		// then: hence the short first waits, and no event before the fourth failure.
		wait := min(volumeRetry<<min(count-1, 12), lastVolume)
		for _, f := range volume.Failures(err) {
			if !cancelled && count >= 4 {
				a.event(p, "", v1.EventTypeWarning, "FailedMount", f.Error())
			}
		}
		klog.FromContext(ctx).V(2).Info("Volumes are not ready", "pod", a.uid, "failures", count, "cause", err.Error())
		s.VolumeFailure = &pod.Failure{Message: err.Error(), RetryAt: time.Now().Add(wait), Count: count}
	}
}

func (a *actor) sandboxSpec(p *v1.Pod, attempt uint32) (runtime.SandboxSpec, error) {
	cfg, reason, message := dns.ForPod(p, a.k.o.DNS)
	if reason != "" && a.first(reason) {
		a.event(p, "", v1.EventTypeWarning, reason, message)
	}
	name, err := dns.NameOf(p, a.k.o.Node.Name, a.k.o.DNS.Domain)
	spec := runtime.SandboxSpec{Pod: p, Attempt: attempt,
		DNS: &runtime.DNS{Servers: cfg.Servers, Searches: cfg.Searches, Options: cfg.Options}}
	if !p.Spec.HostNetwork { // else it has the node's, and runtimes refuse to set one
		spec.Hostname = name.Kernel
	}
	spec.CgroupParent = a.k.o.Cgroups.Path(p)
	return spec, err
}

func (a *actor) createSandbox(ctx context.Context, p *v1.Pod, attempt uint32) fact {
	spec, err := a.sandboxSpec(p, attempt)
	failed := func(err error) fact {
		a.event(p, "", v1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+err.Error())
		return func(s *pod.State) { fail(s, pod.SandboxKey, err, "CreatePodSandboxError", sandboxRetry) }
	}
	if err == nil {
		err = a.runtimeHandler(ctx, p, &spec)
	}
	if err != nil {
		return failed(err)
	}
	// The folder first: by it a later kubelet finds what this one has begun.
	if err := os.MkdirAll(filepath.Join(a.k.o.RootDir, "pods", string(a.uid)), 0o750); err != nil {
		return failed(err)
	}
	if err := a.k.o.Cgroups.Ensure(p); err != nil {
		return failed(err)
	}
	box, err := a.k.o.Runtime.CreateSandbox(context.WithoutCancel(ctx), spec)
	a.k.o.Meter.Sandbox(err)
	if err != nil {
		seen := a.reread(ctx)
		out := failed(err)
		return func(s *pod.State) { out(s); seen(s) }
	}
	return func(s *pod.State) {
		delete(s.Failures, pod.SandboxKey)
		s.Runtime = s.Runtime.Merge(&pod.Runtime{Sandboxes: []pod.Sandbox{box}})
	}
}

// reread asks the runtime what it has of the pod, after a call of which nobody knows how much of it was done: its name
// would be in the way of the next try.
func (a *actor) reread(ctx context.Context) fact {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	found, err := a.k.o.Runtime.Snapshot(ctx, string(a.uid))
	return func(s *pod.State) {
		if err == nil && s.Runtime != nil {
			s.Runtime = s.Runtime.Merge(a.withoutRemoved(found[string(a.uid)]))
		}
	}
}

func (a *actor) stopContainer(ctx context.Context, p *v1.Pod, x pod.Action, h *preStopRun) fact {
	if x.Key == "stop/"+x.ID { // not when it is told again, with less time
		a.event(p, x.Name, v1.EventTypeNormal, "Killing", x.Message)
	}
	grace := x.Grace
	if h != nil {
		grace = a.preStop(h, p, x)
	}
	ctx = context.WithoutCancel(ctx)
	err := a.k.o.Runtime.StopContainer(ctx, x.ID, grace)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Stopping a container failed", "pod", a.uid, "container", x.Name)
		return func(s *pod.State) { fail(s, x.Key, err, "KillContainerError", firstRetry) }
	}
	ended, known, _ := a.k.o.Runtime.Container(ctx, x.ID) // what it cannot say now an event will
	return func(s *pod.State) {
		delete(s.Failures, x.Key)
		if known {
			s.Runtime = s.Runtime.Merge(a.withoutRemoved(&pod.Runtime{Containers: []pod.Container{ended}}))
		}
		now, ok := s.Runtime.Find(x.ID)
		if ok && now.State == pod.Running { // the runtime no longer knows it
			s.Runtime = s.Runtime.Without(x.ID)
		}
	}
}

func (a *actor) remove(ctx context.Context, x pod.Action, call func(context.Context, string) error) fact {
	if err := call(context.WithoutCancel(ctx), x.ID); err != nil {
		klog.FromContext(ctx).Error(err, "Removing failed", "pod", a.uid)
		return func(s *pod.State) { fail(s, pod.RemoveKey, err, "", firstRetry) }
	}
	return func(s *pod.State) {
		delete(s.Failures, pod.RemoveKey)
		a.removed[x.ID] = true
		s.Runtime = s.Runtime.Without(x.ID)
	}
}

func (a *actor) stopSandbox(ctx context.Context, p *v1.Pod, x pod.Action) fact {
	if err := a.k.o.Runtime.StopSandbox(context.WithoutCancel(ctx), x.ID); err != nil {
		a.event(p, "", v1.EventTypeWarning, "FailedKillPod", "error killing pod: "+err.Error())
		return func(s *pod.State) { fail(s, pod.StopSandboxKey, err, "KillPodSandboxError", firstRetry) }
	}
	return func(s *pod.State) {
		delete(s.Failures, pod.StopSandboxKey)
		s.Runtime = s.Runtime.SandboxDown(x.ID)
	}
}

func (a *actor) cleanUp(ctx context.Context, p *v1.Pod) fact {
	ctx = context.WithoutCancel(ctx)
	if err := errors.Join(a.k.o.Volumes.Teardown(ctx, a.uid), a.k.o.Cgroups.RemovePod(a.uid)); err != nil {
		klog.FromContext(ctx).Error(err, "Cleaning up after a pod failed", "pod", a.uid)
		return func(s *pod.State) { fail(s, pod.CleanupKey, err, "", firstRetry) }
	}
	return func(s *pod.State) { s.Cleaned = true }
}

func findContainer(p *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range p.Spec.EphemeralContainers {
		if p.Spec.EphemeralContainers[i].Name == name {
			c := v1.Container(p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			return &c
		}
	}
	return nil
}

func notFound(kind, namespace, name string, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %q not found: %w", kind, name, errNotFound)
	}
	return fmt.Errorf("reading %s %s/%s: %w", kind, namespace, name, err)
}

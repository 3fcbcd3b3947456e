package kubelet

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
)

// stopContainer runs the preStop hook of a container and stops it within its grace period.
func (e *effects) stopContainer(ctx context.Context, j job) []pod.Fact {
	if !j.Again() { // a second stop, with less time, is not reported
		e.event(j.pod, j.Name, v1.EventTypeNormal, "Killing", j.Message)
	}
	grace := j.Grace
	if j.preStop != nil {
		grace = e.runPreStop(j)
	}

	ctx = context.WithoutCancel(ctx)
	if err := e.runtime.StopContainer(ctx, j.ID, grace); err != nil {
		klog.FromContext(ctx).Error(err, "Stopping a container failed", "pod", e.uid, "container", j.Name)
		return []pod.Fact{pod.StopFailed{Key: j.Key, Message: err.Error()}}
	}

	f := pod.ContainerStopped{Key: j.Key, ID: j.ID}
	if ended, known, _ := e.runtime.Container(ctx, j.ID); known { // what the runtime cannot say now an event will
		f.Container = &ended
	}
	return []pod.Fact{f}
}

// minStop is what is left for the container itself when its hook used up the grace period.
const minStop = 2 * time.Second

// runPreStop runs the hook inside the grace period, or waits for it if it runs already, and returns what is left of it.
func (e *effects) runPreStop(j job) time.Duration {
	began, h := time.Now(), j.preStop
	h.start(e, j.pod, j.ID, j.Grace)

	// it may be over: the hook ran while the container waited for its turn
	timer := time.NewTimer(min(j.Grace, time.Until(h.until)))
	defer timer.Stop()
	select {
	case <-h.done:
	case <-h.ctx.Done():
	case <-timer.C:
	}

	return max(j.Grace-time.Since(began), minStop)
}

// start starts the hook of a container unless it runs already, or has run. When the grace period is over nobody waits
// for it any more, but it goes on for as long as the container, as with upstream.
func (h *preStopRun) start(e *effects, p *v1.Pod, id string, grace time.Duration) {
	h.once.Do(func() {
		h.until = time.Now().Add(grace)
		c := h.container
		h.tasks.Go(func() {
			defer close(h.done)
			err := guarded(h.ctx, e.uid, "preStop hook", func() error {
				return e.hook(h.ctx, p, c, hookCall{c.Lifecycle.PreStop, id, h.podIP})
			})
			if err != nil && h.ctx.Err() == nil {
				e.event(p, c.Name, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
			}
		})
	})
}

package effect

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
)

// stopContainer runs the preStop hook of a container and stops it within its grace period.
func (e *Pod) stopContainer(ctx context.Context, j Job) []pod.Fact {
	if !j.Again() { // a second stop, with less time, is not reported
		e.Event(j.Pod, j.Name, v1.EventTypeNormal, "Killing", j.Message)
	}
	grace := j.Grace
	if j.PreStop != nil {
		grace = e.runPreStop(j)
	}

	ctx = context.WithoutCancel(ctx)
	if err := e.o.Runtime.StopContainer(ctx, j.ID, grace); err != nil {
		klog.FromContext(ctx).Error(err, "Stopping a container failed", "pod", e.uid, "container", j.Name)
		return []pod.Fact{pod.StopFailed{Key: j.Key, Message: err.Error()}}
	}

	f := pod.ContainerStopped{Key: j.Key, ID: j.ID}
	if ended, known, _ := e.o.Runtime.Container(ctx, j.ID); known { // what the runtime cannot say now an event will
		f.Container = &ended
	}
	return []pod.Fact{f}
}

// minStop is what is left for the container itself when its hook used up the grace period.
const minStop = 2 * time.Second

// runPreStop runs the hook inside the grace period, or waits for it if it runs already, and returns what is left of it.
func (e *Pod) runPreStop(j Job) time.Duration {
	began, h := time.Now(), j.PreStop
	e.StartPreStop(h, j.Pod, j.ID, j.Grace)

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

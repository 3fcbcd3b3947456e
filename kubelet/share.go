package kubelet

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/cgroup"
)

// share keeps what all pods together may have, and the shares of their classes, which change with the pods.
type share struct {
	cgroups cgroups
	pods    func() []*v1.Pod // nil as long as they are not known
	event   func(eventType, reason, message string)
	changed wakeup.Signal // there may be other pods

	told bool // the event that the limits stand was sent
}

func newShare(c cgroups, pods func() []*v1.Pod, event func(eventType, reason, message string)) *share {
	return &share{cgroups: c, pods: pods, event: event, changed: wakeup.New()}
}

// sharePeriod is how often shares are set again: somebody may have changed them, and a limit that was less than what
// is in use may fit now.
const sharePeriod = time.Minute

// begin makes the cgroups before the first pod. What fails is tried again by run.
func (s *share) begin(ctx context.Context) { s.set(ctx) }

// run sets shares until ctx ends. It does nothing where there are no cgroups.
func (s *share) run(ctx context.Context) {
	if _, none := s.cgroups.(cgroup.None); none {
		return
	}
	tick := time.NewTicker(sharePeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		case <-tick.C:
		}
		s.set(ctx)
	}
}

// set sends upstream's events.
func (s *share) set(ctx context.Context) {
	if _, none := s.cgroups.(cgroup.None); none {
		return
	}
	switch err := s.cgroups.Share(s.pods()); {
	case err != nil:
		klog.FromContext(ctx).Error(err, "What all pods may have together is not set")
		s.event(v1.EventTypeWarning, "FailedNodeAllocatableEnforcement",
			"Failed to update Node Allocatable Limits: "+err.Error())
	case !s.told:
		s.told = true
		s.event(v1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
	}
}

// sharing returns the pods that have not ended; nil as long as not all are known.
func sharing(k *Kubelet) []*v1.Pod {
	if !k.knowledge.joined.Load() && !k.o.Standalone {
		return nil
	}
	out := []*v1.Pod{}
	for _, v := range k.View() {
		if v.Pod.Status.Phase != v1.PodSucceeded && v.Pod.Status.Phase != v1.PodFailed {
			out = append(out, v.Pod)
		}
	}
	return out
}

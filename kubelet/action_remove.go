package kubelet

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
)

// remove removes a sandbox, or a container with its log.
func (e *effects) remove(ctx context.Context, j job) []pod.Fact {
	remove := e.removeContainer
	if j.Kind == pod.RemoveSandbox {
		remove = func(ctx context.Context, j job) error { return e.runtime.RemoveSandbox(ctx, j.ID) }
	}

	if err := remove(context.WithoutCancel(ctx), j); err != nil {
		klog.FromContext(ctx).Error(err, "Removing failed", "pod", e.uid)
		return []pod.Fact{pod.RemoveFailed{ID: j.ID, Message: err.Error()}}
	}
	return []pod.Fact{pod.RemoveDone{ID: j.ID}}
}

func (e *effects) removeContainer(ctx context.Context, j job) error {
	c, _ := j.runtime.Find(j.ID)
	err := errors.Join(e.runtime.RemoveContainer(ctx, j.ID), e.folders.removeLog(c))
	if c.StartedAt.IsZero() { // a start that was cut short leaves a process that waits
		err = errors.Join(err, e.cgroups.RemoveContainer(e.uid, j.ID))
	}
	return err
}

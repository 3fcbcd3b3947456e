package effect

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
)

// remove removes a sandbox, or a container with its log.
func (e *Pod) remove(ctx context.Context, j Job) []pod.Fact {
	remove := e.removeContainer
	if j.Kind == pod.RemoveSandbox {
		remove = func(ctx context.Context, j Job) error { return e.o.Runtime.RemoveSandbox(ctx, j.ID) }
	}

	if err := remove(context.WithoutCancel(ctx), j); err != nil {
		klog.FromContext(ctx).Error(err, "Removing failed", "pod", e.uid)
		return []pod.Fact{pod.RemoveFailed{ID: j.ID, Message: err.Error()}}
	}
	return []pod.Fact{pod.RemoveDone{ID: j.ID}}
}

func (e *Pod) removeContainer(ctx context.Context, j Job) error {
	c, _ := j.Runtime.Find(j.ID)
	err := errors.Join(e.o.Runtime.RemoveContainer(ctx, j.ID), e.o.Folders.removeLog(c))
	if c.StartedAt.IsZero() { // a start that was cut short leaves a process that waits
		err = errors.Join(err, e.o.Cgroups.RemoveContainer(e.uid, j.ID))
	}
	return err
}

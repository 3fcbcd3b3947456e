package effect

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/volume"
)

// prepareVolumes makes the volumes of the pod ready to be mounted.
func (e *Pod) prepareVolumes(ctx context.Context, j Job) []pod.Fact {
	err := e.o.Volumes.Prepare(ctx, j.Pod, volume.Facts{Allocatable: e.o.Allocatable()})
	if err == nil {
		return []pod.Fact{pod.VolumesPrepared{}}
	}

	f := pod.VolumesFailed{Message: err.Error(), Cancelled: ctx.Err() != nil}
	for _, failure := range volume.Failures(err) {
		f.Failures = append(f.Failures, failure.Error())
	}
	return []pod.Fact{f}
}

// cleanUp removes the volumes and the cgroup of a pod that has ended, and gives its claims back.
func (e *Pod) cleanUp(ctx context.Context, _ Job) []pod.Fact {
	whole := context.WithoutCancel(ctx)
	err := errors.Join(e.o.Allot.Unprepare(whole, e.uid), e.o.Volumes.Teardown(whole, e.uid),
		e.o.Cgroups.RemovePod(e.uid))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cleaning up after a pod failed", "pod", e.uid)
		return []pod.Fact{pod.CleanupFailed{Message: err.Error()}}
	}
	return []pod.Fact{pod.CleanedUp{}}
}

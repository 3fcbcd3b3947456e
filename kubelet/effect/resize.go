package effect

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/desired"
)

// resizePod changes what runs: the pod's cgroup first where it grows, last where it shrinks, and its containers in
// between.
func (e *Pod) resizePod(ctx context.Context, j Job) []pod.Fact {
	ctx, began := context.WithoutCancel(ctx), time.Now()
	f := pod.Resized{Resources: desired.ResourcesOf(j.Pod), Actuated: map[string]v1.ResourceRequirements{}}

	err := e.checkMemory(ctx, j)
	if err == nil {
		err = e.o.Cgroups.Resize(j.Pod, func() error {
			for _, u := range j.Updates {
				c := desired.Find(j.Pod, u.Name)
				if err := e.o.Runtime.UpdateResources(ctx, u.ID, j.Pod, c); err != nil {
					return err
				}
				f.Actuated[u.ID] = desired.InPod(c.Resources, desired.PodLimits(j.Pod))
			}
			return nil
		})
	}
	if err != nil {
		f.Failed, f.Message = true, err.Error()
	}
	e.o.Meter.Resizes().Done(time.Since(began), f.Failed)
	return append(e.reread(ctx), f) // the runtime sends no event about it
}

// checkMemory returns an error, in upstream's words, if a container uses more memory than its new limit, for the
// kernel would kill it.
func (e *Pod) checkMemory(ctx context.Context, j Job) error {
	for _, u := range j.Updates {
		c, _ := j.Runtime.Find(u.ID)
		has := c.Given.Memory // 0 for no limit
		wants := desired.InPod(desired.Find(j.Pod, u.Name).Resources, desired.PodLimits(j.Pod))
		limit := wants.Limits.Memory().Value()
		if limit == 0 || has != 0 && limit >= has {
			continue
		}

		used, err := e.o.Runtime.MemoryUsage(ctx, u.ID)
		if err != nil {
			return err
		}
		if used >= limit {
			return fmt.Errorf(
				"cannot decrease memory limits: attempting to set container %q memory limit (%d) below current usage (%d)", u.Name, limit, used)
		}
	}
	return nil
}

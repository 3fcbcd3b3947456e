package kubelet

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod"
)

// resizePod changes what runs: the pod's cgroup first where it grows, last where it shrinks, and its containers in
// between.
func (e *effects) resizePod(ctx context.Context, j job) []pod.Fact {
	ctx, began := context.WithoutCancel(ctx), time.Now()
	f := pod.Resized{Resources: pod.ResourcesOf(j.pod), Actuated: map[string]v1.ResourceRequirements{}}

	err := e.checkMemory(ctx, j)
	if err == nil {
		err = e.cgroups.Resize(j.pod, func() error {
			for _, u := range j.Updates {
				c := pod.FindContainer(j.pod, u.Name)
				if err := e.runtime.UpdateResources(ctx, u.ID, j.pod, c); err != nil {
					return err
				}
				f.Actuated[u.ID] = pod.InPod(c.Resources, pod.PodLimits(j.pod))
			}
			return nil
		})
	}
	if err != nil {
		f.Failed, f.Message = true, err.Error()
	}
	e.meter.Resizes().Done(time.Since(began), f.Failed)
	return append(e.reread(ctx), f) // the runtime sends no event about it
}

// checkMemory returns an error, in upstream's words, if a container uses more memory than its new limit, for the
// kernel would kill it.
func (e *effects) checkMemory(ctx context.Context, j job) error {
	for _, u := range j.Updates {
		c, _ := j.runtime.Find(u.ID)
		has := c.Given.Memory // 0 for no limit
		wants := pod.InPod(pod.FindContainer(j.pod, u.Name).Resources, pod.PodLimits(j.pod))
		limit := wants.Limits.Memory().Value()
		if limit == 0 || has != 0 && limit >= has {
			continue
		}

		used, err := e.runtime.MemoryUsage(ctx, u.ID)
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

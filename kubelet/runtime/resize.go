package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// UpdateResources gives a running container the resources that c now asks for. Limits that c no longer has are kept.
func (r *Runtime) UpdateResources(ctx context.Context, id string, p *v1.Pod, c *v1.Container) error {
	ctx, cancel := r.short(ctx)
	defer cancel()
	req := &cri.UpdateContainerResourcesRequest{ContainerId: id}
	if r.o.Windows {
		req.Windows = windowsResources(c, r.o.CPUs)
	} else {
		req.Linux = r.o.linuxResources(p, c)
	}
	if _, err := r.client.UpdateContainerResources(ctx, req); err != nil {
		return fmt.Errorf("updating the resources of container %s: %w", c.Name, described{err})
	}
	return nil
}

// Pin tells a running container on which processors it may run, in the kernel's form. The rest of what it has stays.
func (r *Runtime) Pin(ctx context.Context, id, cpus string) error {
	ctx, cancel := r.short(ctx)
	defer cancel()
	req := &cri.UpdateContainerResourcesRequest{ContainerId: id, Linux: &cri.LinuxContainerResources{CpusetCpus: cpus}}
	if _, err := r.client.UpdateContainerResources(ctx, req); err != nil {
		return fmt.Errorf("setting the processors of container %s to %s: %w", id, cpus, described{err})
	}
	return nil
}

// MemoryUsage returns how much memory a running container uses, in bytes.
func (r *Runtime) MemoryUsage(ctx context.Context, id string) (int64, error) {
	ctx, cancel := r.short(ctx)
	defer cancel()
	resp, err := r.client.ContainerStats(ctx, &cri.ContainerStatsRequest{ContainerId: id})
	if err != nil {
		return 0, fmt.Errorf("reading the memory usage of container %s: %w", id, err)
	}
	used := resp.GetStats().GetMemory().GetUsageBytes()
	if used == nil {
		used = resp.GetStats().GetMemory().GetWorkingSetBytes()
	}
	if used == nil {
		return 0, fmt.Errorf("the runtime does not report the memory usage of container %s", id)
	}
	return int64(used.Value), nil
}

// madeWith returns the resources that a container was created with, or nil if this kubelet did not create it.
func madeWith(c *cri.ContainerStatus) *v1.ResourceRequirements {
	text := c.Annotations[annResources]
	if text == "" {
		return nil
	}
	var out v1.ResourceRequirements
	if json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return &out
}

// madeIn returns the limits that the pod as a whole had when this kubelet created a container.
func madeIn(c *cri.ContainerStatus) (out v1.ResourceList) {
	if json.Unmarshal([]byte(c.Annotations[annPodLimits]), &out) != nil {
		return nil
	}
	return out
}

// given returns the limits that the container has now.
func given(c *cri.ContainerStatus) observed.Given {
	l := c.GetResources().GetLinux()
	return observed.Given{At: time.Now(), Shares: l.GetCpuShares(), Quota: l.GetCpuQuota(), Period: l.GetCpuPeriod(),
		Memory: l.GetMemoryLimitInBytes()}
}

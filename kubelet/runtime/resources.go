package runtime

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resources "k8s.io/component-helpers/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/pod/desired"
)

// Values of the kernel's CFS scheduler: the period in microseconds, the smallest quota, and the range of cpu.shares.
const (
	cfsPeriod = 100000
	minQuota  = 1000
	minShares = 2
	maxShares = 262144
)

// Shares converts milli-CPUs to cpu.shares.
func Shares(milli int64) int64 { return min(max(milli*1024/1000, minShares), maxShares) }

// Quota converts a limit in milli-CPUs to a CFS quota in a period, both in microseconds; 0 is no limit.
func Quota(milli, period int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*period/1000, minQuota)
}

// linuxResources is what the container may use, within the limits of its pod.
func (o Options) linuxResources(p *v1.Pod, c *v1.Container) *cri.LinuxContainerResources {
	limits := desired.InPod(c.Resources, desired.PodLimits(p)).Limits
	res := o.linuxAmounts(c.Resources.Requests.Cpu(), limits.Cpu(), limits.Memory())
	res.OomScoreAdj = oomScore(p, c, o.MemoryBytes)
	for name, q := range hugeLimits(p, c) {
		if size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
			if page, err := resource.ParseQuantity(size); err == nil {
				res.HugepageLimits = append(res.HugepageLimits,
					&cri.HugepageLimit{PageSize: cgroup.PageName(page.Value()), Limit: uint64(q.Value())})
			}
		}
	}
	o.limit(p, c, res)
	return res
}

// hugeLimits are the limits of huge pages of a container: its own, and those of the pod as a whole for the sizes that
// it does not name.
func hugeLimits(p *v1.Pod, c *v1.Container) v1.ResourceList {
	out := maps.Clone(desired.PodLimits(p))
	if out == nil {
		return c.Resources.Limits
	}
	maps.Copy(out, c.Resources.Limits)
	return out
}

// oomScore returns the container's score for the kernel's OOM killer, which kills the highest first: the smaller the
// memory request, the higher the score. What the pod as a whole requests beyond its containers counts for all in equal
// parts, and a sidecar is killed no sooner than the container that it serves. Upstream's formula.
func oomScore(p *v1.Pod, c *v1.Container, memory int64) int64 {
	switch {
	case p.Spec.Priority != nil && *p.Spec.Priority >= 2000001000, p.Status.QOSClass == v1.PodQOSGuaranteed:
		return -997
	case p.Status.QOSClass == v1.PodQOSBestEffort:
		return 1000
	}
	if memory <= 0 {
		return 999
	}
	request := c.Resources.Requests.Memory().Value()
	if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
		request = max(request, leastMemory(p))
	}
	score := 1000 - 1000*(request+unclaimed(p))/memory
	return min(max(score, 3), 999)
}

// leastMemory is the smallest memory request of the regular containers.
func leastMemory(p *v1.Pod) (least int64) {
	for i := range p.Spec.Containers {
		if r := p.Spec.Containers[i].Resources.Requests.Memory().Value(); i == 0 || r < least {
			least = r
		}
	}
	return least
}

// unclaimed is the part for one container of what the pod as a whole requests of memory beyond its containers.
func unclaimed(p *v1.Pod) int64 {
	if !resources.IsPodLevelRequestsSet(p) {
		return 0
	}
	whole := resources.PodRequests(p, resources.PodResourcesOptions{})
	parts := resources.AggregateContainerRequests(p, resources.PodResourcesOptions{})
	return max(whole.Memory().Value()-parts.Memory().Value(),
		0) / int64(len(p.Spec.Containers)+len(p.Spec.InitContainers))
}

// windowsResources has the limits only: Windows has no shares for requests here. CpuMaximum is in
// hundredths of a percent of all processors of the host, from 1 to 10,000.
func windowsResources(c *v1.Container, cpus int64) *cri.WindowsContainerResources {
	res := &cri.WindowsContainerResources{MemoryLimitInBytes: c.Resources.Limits.Memory().Value()}
	if milli := c.Resources.Limits.Cpu().MilliValue(); milli > 0 && cpus > 0 {
		res.CpuMaximum = min(max(10*milli/cpus, 1), 10000)
	}
	return res
}

package runtime

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/cgroup"
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

// Quota converts a limit in milli-CPUs to a CFS quota in microseconds; 0 is no limit.
func Quota(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*cfsPeriod/1000, minQuota)
}

func (o Options) linuxResources(p *v1.Pod, c *v1.Container) *cri.LinuxContainerResources {
	res := o.linuxAmounts(c.Resources.Requests.Cpu(), c.Resources.Limits.Cpu(), c.Resources.Limits.Memory())
	res.OomScoreAdj = oomScore(p, c, o.MemoryBytes)
	for name, q := range c.Resources.Limits {
		if size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
			if page, err := resource.ParseQuantity(size); err == nil {
				res.HugepageLimits = append(res.HugepageLimits, &cri.HugepageLimit{PageSize: cgroup.PageName(page.Value()), Limit: uint64(q.Value())})
			}
		}
	}
	return res
}

// oomScore returns the container's score for the kernel's OOM killer, which kills the highest first: the smaller the memory
// request, the higher the score. Upstream's formula.
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
	score := 1000 - 1000*c.Resources.Requests.Memory().Value()/memory
	return min(max(score, 3), 999)
}

func windowsResources(c *v1.Container, cpus int64) *cri.WindowsContainerResources {
	res := &cri.WindowsContainerResources{MemoryLimitInBytes: c.Resources.Limits.Memory().Value()}
	if milli := c.Resources.Limits.Cpu().MilliValue(); milli > 0 && cpus > 0 {
		res.CpuMaximum = min(max(10*milli/cpus, 1), 10000)
	}
	return res
}

package runtime

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CFS values of the kernel: the period in microseconds, the least quota, and the range of cpu.shares.
const (
	cfsPeriod = 100000
	minQuota  = 1000
	minShares = 2
	maxShares = 262144
)

// Shares turns milli-CPUs into cpu.shares.
func Shares(milli int64) int64 { return min(max(milli*1024/1000, minShares), maxShares) }

// Quota turns a limit in milli-CPUs into a CFS quota; 0 means none.
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
				res.HugepageLimits = append(res.HugepageLimits, &cri.HugepageLimit{PageSize: pageName(page.Value()), Limit: uint64(q.Value())})
			}
		}
	}
	return res
}

// pageName is how cgroups call a page of that many bytes: 64KB, 2MB, 1GB.
func pageName(bytes int64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{30, "GB"}, {20, "MB"}} {
		if bytes>>u.shift > 0 && bytes%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d%s", bytes>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%dKB", bytes>>10)
}

// oomScore ranks the container for the kernel's OOM killer: the more of its request it can exceed, the earlier it goes.
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

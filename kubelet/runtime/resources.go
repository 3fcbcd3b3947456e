package runtime

import (
	v1 "k8s.io/api/core/v1"
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

func linuxResources(p *v1.Pod, c *v1.Container, o Options) *cri.LinuxContainerResources {
	cpuLimit, memLimit := c.Resources.Limits.Cpu(), c.Resources.Limits.Memory()
	cpu := c.Resources.Requests.Cpu()
	if cpu.IsZero() && !cpuLimit.IsZero() {
		cpu = cpuLimit
	}
	res := &cri.LinuxContainerResources{CpuShares: Shares(cpu.MilliValue()), MemoryLimitInBytes: memLimit.Value(),
		OomScoreAdj: oomScore(p, c, o.MemoryBytes)}
	if o.CFSQuota {
		res.CpuPeriod = cfsPeriod
		res.CpuQuota = Quota(cpuLimit.MilliValue())
	}
	return res
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

package runtime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Stats reads resource usage from the runtime, in the form of the kubelet's summary API.
type Stats struct {
	Runtime cri.RuntimeServiceClient
	Images  cri.ImageServiceClient
}

// PodStats lists the usage of all sandboxes and their containers. If the runtime has no statistics of sandboxes
// (containerd 1.6), it reads those of the containers. If the list fails, it asks for each sandbox by itself:
// containerd on Windows answers the whole list with an error as soon as one sandbox has none, which happens while pods
// start and stop, and not at all while the statistics of one sandbox hang.
func (s Stats) PodStats(ctx context.Context) ([]statsapi.PodStats, error) {
	short, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	resp, err := s.Runtime.ListPodSandboxStats(short, &cri.ListPodSandboxStatsRequest{})
	if status.Code(err) == codes.Unimplemented {
		return s.byContainer(ctx)
	}
	if err != nil {
		return s.bySandbox(ctx, fmt.Errorf("listing usage of sandboxes: %w", err))
	}
	pods := make([]statsapi.PodStats, 0, len(resp.GetStats()))
	for _, p := range resp.GetStats() {
		pods = append(pods, podStats(p))
	}
	return pods, nil
}

// Bounds of the calls: how many are made about single sandboxes at the same time, and how long each call, and the
// list, may take.
const (
	statsParallel = 8
	statsTimeout  = 10 * time.Second
)

// bySandbox asks for the usage of each ready sandbox by itself and leaves out those that have none. If there is no
// answer for any, it returns cause, which is the error of the list.
func (s Stats) bySandbox(ctx context.Context, cause error) ([]statsapi.PodStats, error) {
	ready := &cri.PodSandboxFilter{State: &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_READY}}
	boxes, err := s.Runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: ready})
	if err != nil {
		return nil, cause
	}

	// statsParallel calls are under way at a time: each may take as long as statsTimeout.
	slots := make(chan struct{}, statsParallel)
	answers, errs := make([]*cri.PodSandboxStats, len(boxes.GetItems())), make([]error, len(boxes.GetItems()))
	var all sync.WaitGroup
	for i, box := range boxes.GetItems() {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, statsTimeout)
			defer cancel()
			one, err := s.Runtime.PodSandboxStats(ctx, &cri.PodSandboxStatsRequest{PodSandboxId: box.GetId()})
			answers[i], errs[i] = one.GetStats(), err
		})
	}
	all.Wait()

	var pods []statsapi.PodStats
	for _, p := range answers {
		if p != nil {
			pods = append(pods, podStats(p))
		}
	}
	if len(pods) == 0 {
		return nil, cause
	}
	klog.FromContext(ctx).V(2).
		// Some answers are better than none; what is missing is logged.
		Info("Statistics of single sandboxes are missing", "known", len(pods), "of", len(answers), "reason",
			errors.Join(errs...))
	return pods, nil
}

// byContainer adds up the usage of pods from their containers. The result has no network usage and leaves out what the
// sandbox itself uses.
func (s Stats) byContainer(ctx context.Context) ([]statsapi.PodStats, error) {
	resp, err := s.Runtime.ListContainerStats(ctx, &cri.ListContainerStatsRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing usage of containers: %w", err)
	}

	var pods []statsapi.PodStats
	index := map[string]int{}
	for _, c := range newest(resp.GetStats()) {
		labels := c.GetAttributes().GetLabels()
		uid := labels["io.kubernetes.pod.uid"]
		i, known := index[uid]
		if !known {
			i = len(pods)
			index[uid] = i
			pods = append(pods, statsapi.PodStats{PodRef: statsapi.PodReference{UID: uid,
				Name: labels["io.kubernetes.pod.name"], Namespace: labels["io.kubernetes.pod.namespace"]}})
		}
		pods[i].Containers = append(pods[i].Containers, containerStats(c))
	}

	for i := range pods {
		pods[i].CPU, pods[i].Memory = total(pods[i].Containers)
	}
	return pods, nil
}

// ImageFs returns the usage of the filesystem of images. The runtime knows what is used only, not the size.
func (s Stats) ImageFs(ctx context.Context) (*statsapi.FsStats, error) {
	resp, err := s.Images.ImageFsInfo(ctx, &cri.ImageFsInfoRequest{})
	if err != nil {
		return nil, fmt.Errorf("reading usage of images: %w", err)
	}
	for _, fs := range resp.GetImageFilesystems() {
		return &statsapi.FsStats{Time: stamp(fs.GetTimestamp()), UsedBytes: amount(fs.GetUsedBytes()),
			InodesUsed: amount(fs.GetInodesUsed())}, nil
	}
	return nil, fmt.Errorf("the runtime names no filesystem of images")
}

// podStats translates the usage of one sandbox. Where the runtime gives none for the pod as a whole, the sum of its
// containers takes its place.
func podStats(p *cri.PodSandboxStats) statsapi.PodStats {
	meta := p.GetAttributes().GetMetadata()
	out := statsapi.PodStats{PodRef: statsapi.PodReference{Name: meta.GetName(), Namespace: meta.GetNamespace(),
		UID: meta.GetUid()}}

	// The systems have different types for the same figures.
	if w := p.GetWindows(); w != nil {
		out.CPU, out.Memory = windowsCPU(w.GetCpu()), windowsMemory(w.GetMemory())
		for _, c := range newest(w.GetContainers()) {
			out.Containers = append(out.Containers, windowsContainer(c))
		}
		if n := w.GetNetwork(); n.GetDefaultInterface() != nil {
			d := n.GetDefaultInterface()
			out.Network = &statsapi.NetworkStats{Time: stamp(n.GetTimestamp()), InterfaceStats: statsapi.InterfaceStats{
				Name: d.GetName(), RxBytes: amount(d.GetRxBytes()), TxBytes: amount(d.GetTxBytes())}}
			for _, i := range n.GetInterfaces() {
				out.Network.Interfaces = append(out.Network.Interfaces,
					statsapi.InterfaceStats{Name: i.GetName(), RxBytes: amount(i.GetRxBytes()),
						TxBytes: amount(i.GetTxBytes())})
			}
		}
	} else {
		l := p.GetLinux()
		out.CPU, out.Memory = linuxCPU(l.GetCpu()), linuxMemory(l.GetMemory())
		for _, c := range newest(l.GetContainers()) {
			one := containerStats(c)
			out.Containers = append(out.Containers, one)
			if one.Swap != nil {
				if out.Swap == nil {
					out.Swap = &statsapi.SwapStats{Time: one.Swap.Time}
				}
				out.Swap.SwapUsageBytes = sum(out.Swap.SwapUsageBytes, one.Swap.SwapUsageBytes)
				out.Swap.SwapAvailableBytes = sum(out.Swap.SwapAvailableBytes, one.Swap.SwapAvailableBytes)
			}
		}
		if n := l.GetNetwork(); n.GetDefaultInterface() != nil {
			out.Network = &statsapi.NetworkStats{Time: stamp(n.GetTimestamp()),
				InterfaceStats: linuxInterface(n.GetDefaultInterface())}
			for _, i := range n.GetInterfaces() {
				out.Network.Interfaces = append(out.Network.Interfaces, linuxInterface(i))
			}
		}
	}
	if out.Network != nil {
		out.Network.Interfaces = once(out.Network.InterfaceStats, out.Network.Interfaces)
	}

	// What the runtime gives for the pod counts before the sum.
	out.ProcessStats = processes(p)
	cpu, memory := total(out.Containers)
	if out.CPU == nil {
		out.CPU = cpu
	}
	if out.Memory == nil {
		out.Memory = memory
	}
	return out
}

// once returns all interfaces of a pod, each once, with the default one first. A runtime may list the default one
// among the others, or not.
func once(standard statsapi.InterfaceStats, listed []statsapi.InterfaceStats) (out []statsapi.InterfaceStats) {
	seen := map[string]bool{}
	for _, i := range append([]statsapi.InterfaceStats{standard}, listed...) {
		if !seen[i.Name] {
			seen[i.Name] = true
			out = append(out, i)
		}
	}
	return out
}

// linuxInterface is nil in what the runtime does not tell.
func linuxInterface(i *cri.NetworkInterfaceUsage) statsapi.InterfaceStats {
	return statsapi.InterfaceStats{Name: i.GetName(), RxBytes: amount(i.GetRxBytes()),
		RxErrors: amount(i.GetRxErrors()), TxBytes: amount(i.GetTxBytes()), TxErrors: amount(i.GetTxErrors())}
}

// newest returns the statistics of the newest instance of each container, in the order of the list. A runtime may also
// list instances that have ended, and two series of one name would make the whole page of metrics fail.
func newest[C interface {
	GetAttributes() *cri.ContainerAttributes
}](list []C) []C {
	type key struct{ pod, name string }
	keyOf := func(c C) key {
		return key{c.GetAttributes().GetLabels()["io.kubernetes.pod.uid"], c.GetAttributes().GetMetadata().GetName()}
	}
	attempt := func(c C) uint32 { return c.GetAttributes().GetMetadata().GetAttempt() }

	index := map[key]int{}
	var out []C
	for _, c := range list {
		i, known := index[keyOf(c)]
		switch {
		case !known:
			index[keyOf(c)] = len(out)
			out = append(out, c)
		case attempt(c) > attempt(out[i]):
			out[i] = c
		}
	}
	return out
}

// containerStats has no size of logs and no capacity: the kubelet adds these.
func containerStats(c *cri.ContainerStats) statsapi.ContainerStats {
	out := statsapi.ContainerStats{Name: c.GetAttributes().GetMetadata().GetName(), CPU: linuxCPU(c.GetCpu()),
		Memory: linuxMemory(c.GetMemory()), Swap: swap(c.GetSwap())}
	if l := c.GetWritableLayer(); l != nil {
		out.Rootfs = &statsapi.FsStats{Time: stamp(l.GetTimestamp()), UsedBytes: amount(l.GetUsedBytes()),
			InodesUsed: amount(l.GetInodesUsed())}
	}
	return out
}

// processes returns how many processes the containers of a pod have, or nil if the runtime does not count them.
func processes(p *cri.PodSandboxStats) *statsapi.ProcessStats {
	n := amount(p.GetLinux().GetProcess().GetProcessCount())
	if w := p.GetWindows(); w != nil {
		n = amount(w.GetProcess().GetProcessCount())
	}
	if n == nil {
		return nil
	}
	return &statsapi.ProcessStats{ProcessCount: n}
}

// swap is nil without swap accounting.
func swap(s *cri.SwapUsage) *statsapi.SwapStats {
	if s == nil {
		return nil
	}
	return &statsapi.SwapStats{Time: stamp(s.GetTimestamp()), SwapAvailableBytes: amount(s.GetSwapAvailableBytes()),
		SwapUsageBytes: amount(s.GetSwapUsageBytes())}
}

// pressure returns the pressure stall information, or nil if the kernel has none. An average that is not a number
// becomes 0, because JSON cannot express it.
func pressure(p *cri.PsiStats) *statsapi.PSIStats {
	if p == nil {
		return nil
	}
	share := func(f float64) float64 {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return 0
		}
		return f
	}
	data := func(d *cri.PsiData) statsapi.PSIData {
		return statsapi.PSIData{Total: d.GetTotal(), Avg10: share(d.GetAvg10()), Avg60: share(d.GetAvg60()),
			Avg300: share(d.GetAvg300())}
	}
	return &statsapi.PSIStats{Full: data(p.GetFull()), Some: data(p.GetSome())}
}

// windowsContainer has no inodes: the file system of Windows has none.
func windowsContainer(c *cri.WindowsContainerStats) statsapi.ContainerStats {
	out := statsapi.ContainerStats{Name: c.GetAttributes().GetMetadata().GetName(), CPU: windowsCPU(c.GetCpu()),
		Memory: windowsMemory(c.GetMemory())}
	if l := c.GetWritableLayer(); l != nil {
		out.Rootfs = &statsapi.FsStats{Time: stamp(l.GetTimestamp()), UsedBytes: amount(l.GetUsedBytes())}
	}
	return out
}

// The translations below are nil for what the runtime did not measure.
func linuxCPU(c *cri.CpuUsage) *statsapi.CPUStats {
	if c == nil {
		return nil
	}
	return &statsapi.CPUStats{Time: stamp(c.GetTimestamp()), UsageNanoCores: amount(c.GetUsageNanoCores()),
		UsageCoreNanoSeconds: amount(c.GetUsageCoreNanoSeconds()), PSI: pressure(c.GetPsi())}
}

func windowsCPU(c *cri.WindowsCpuUsage) *statsapi.CPUStats {
	if c == nil {
		return nil
	}
	return &statsapi.CPUStats{Time: stamp(c.GetTimestamp()), UsageNanoCores: amount(c.GetUsageNanoCores()),
		UsageCoreNanoSeconds: amount(c.GetUsageCoreNanoSeconds())}
}

func linuxMemory(m *cri.MemoryUsage) *statsapi.MemoryStats {
	if m == nil {
		return nil
	}
	return &statsapi.MemoryStats{Time: stamp(m.GetTimestamp()), WorkingSetBytes: amount(m.GetWorkingSetBytes()),
		AvailableBytes: amount(m.GetAvailableBytes()),
		UsageBytes:     amount(m.GetUsageBytes()), RSSBytes: amount(m.GetRssBytes()),
		PageFaults:      amount(m.GetPageFaults()),
		MajorPageFaults: amount(m.GetMajorPageFaults()), PSI: pressure(m.GetPsi())}
}

func windowsMemory(m *cri.WindowsMemoryUsage) *statsapi.MemoryStats {
	if m == nil {
		return nil
	}
	return &statsapi.MemoryStats{Time: stamp(m.GetTimestamp()), WorkingSetBytes: amount(m.GetWorkingSetBytes()),
		AvailableBytes: amount(m.GetAvailableBytes()),
		UsageBytes:     amount(m.GetCommitMemoryBytes()), PageFaults: amount(m.GetPageFaults())}
}

// total adds up the containers of a pod; nil when none of them is known.
func total(containers []statsapi.ContainerStats) (*statsapi.CPUStats, *statsapi.MemoryStats) {
	var cpu *statsapi.CPUStats
	var memory *statsapi.MemoryStats
	for _, c := range containers {
		if c.CPU != nil {
			if cpu == nil {
				cpu = &statsapi.CPUStats{Time: c.CPU.Time}
			}
			cpu.UsageNanoCores = sum(cpu.UsageNanoCores, c.CPU.UsageNanoCores)
			cpu.UsageCoreNanoSeconds = sum(cpu.UsageCoreNanoSeconds, c.CPU.UsageCoreNanoSeconds)
		}
		if c.Memory != nil {
			if memory == nil {
				memory = &statsapi.MemoryStats{Time: c.Memory.Time}
			}
			memory.WorkingSetBytes = sum(memory.WorkingSetBytes, c.Memory.WorkingSetBytes)
			memory.UsageBytes = sum(memory.UsageBytes, c.Memory.UsageBytes)
		}
	}
	return cpu, memory
}

// sum of two figures that may be missing; nil only if both are.
func sum(a, b *uint64) *uint64 {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	n := *a + *b
	return &n
}

// stamp and amount translate times and figures; a figure that is missing stays so.
func stamp(nanoseconds int64) metav1.Time { return metav1.NewTime(time.Unix(0, nanoseconds)) }

func amount(v *cri.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	n := v.GetValue()
	return &n
}

package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/volume/measure"
)

// Times of statistics.
const (
	statsAge  = 10 * time.Second // how often they are taken while somebody reads them
	idlePace  = time.Minute      // how often they are taken while nobody reads them
	activeFor = 5 * time.Minute  // how long after a read another one is expected
	diskAge   = time.Minute      // how old sizes of folders may be

	diskTimeout = 10 * time.Second // how long one pod's folders are read
)

// sampler keeps the newest statistics. It also takes them while nobody reads them, so that the first reader sees rates
// of use.
type sampler struct {
	opts    Options
	summary latest[*statsapi.Summary]

	mu     sync.Mutex
	readAt time.Time // the last read

	// The fields below belong to the call of take that is under way.
	// take runs alone (latest), so that these fields need no lock.
	last    platform.Usage // of the node, for the rate of CPU use
	lastAt  time.Time
	imageFs *statsapi.FsStats
	imageAt time.Time
	disk    map[types.UID]diskUse
	rates   map[string]spent // by name of a system container
}

// diskUse is what one pod has on disk, as measured at a time.
type diskUse struct {
	at      time.Time
	logs    map[string]size // by container name
	volumes []measure.Usage
	files   measure.Usage // hosts file and termination messages
}

// size is the disk space that files take, and how many inodes.
type size struct{ bytes, inodes uint64 }

func (s *size) add(bytes, inodes uint64) {
	s.bytes += bytes
	s.inodes += inodes
}

func newSampler(opts Options) *sampler {
	if opts.Machine.Usage == nil {
		opts.Machine.Usage = platform.ReadUsage
	}
	s := &sampler{opts: opts, disk: map[types.UID]diskUse{}, rates: map[string]spent{}}
	// longer than statsAge, so that run renews them before a reader waits
	s.summary.ask = s.take
	s.summary.maxAge = statsAge + statsAge/10
	return s
}

// run takes statistics until ctx ends: each statsAge while somebody reads them, else each idlePace.
func (s *sampler) run(ctx context.Context) {
	if s.opts.Stats == nil {
		return
	}
	tick := time.NewTicker(statsAge)
	defer tick.Stop()
	// Nobody needs exact times: a tick that finds statistics old enough starts a call and does not
	// wait for it.
	for {
		s.mu.Lock()
		due := time.Since(s.readAt) < activeFor || time.Since(s.summary.answered()) >= idlePace-statsAge/2
		s.mu.Unlock()
		if due {
			s.summary.start()
		}

		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// get returns statistics that are about statsAge old, or older ones if the runtime is slow. If they lack a pod with a
// running container, they are taken again: clients that saw the container running expect it in them (upstream's tests
// of Windows nodes do). The result is shared: the caller must not change it.
func (s *sampler) get(ctx context.Context) (*statsapi.Summary, error) {
	if s.opts.Stats == nil {
		return nil, errors.New("statistics are not available")
	}
	s.mu.Lock()
	s.readAt = time.Now()
	s.mu.Unlock()
	all, err := s.summary.get(ctx)
	// The call must have begun after the newest start, or it could miss the same container again.
	if err == nil && s.missing(all) {
		return s.summary.getSince(ctx, s.newestStart())
	}
	return all, err
}

// newestStart returns the newest start of a running container, the zero time without one.
func (s *sampler) newestStart() time.Time {
	var newest time.Time
	for _, v := range s.opts.Pods() {
		for _, c := range v.Pod.Status.ContainerStatuses {
			if c.State.Running != nil && c.State.Running.StartedAt.After(newest) {
				newest = c.State.Running.StartedAt.Time
			}
		}
	}
	return newest
}

// missing reports whether a pod that has a running container has no statistics.
// there is true for pods with figures of at least one container.
func (s *sampler) missing(all *statsapi.Summary) bool {
	there := map[string]bool{}
	for _, p := range all.Pods {
		there[p.PodRef.UID] = len(p.Containers) > 0
	}
	for _, v := range s.opts.Pods() {
		for _, c := range v.Pod.Status.ContainerStatuses {
			if c.State.Running != nil && !there[string(v.Pod.UID)] {
				return true
			}
		}
	}
	return false
}

// take asks the runtime and the machine. One call is under way at a time.
func (s *sampler) take(ctx context.Context) (*statsapi.Summary, error) {
	pods, err := s.opts.Stats.PodStats(ctx)
	if err != nil {
		return nil, err
	}
	// The node comes first: what follows adds to it and uses its times.
	node := s.node(ctx)
	s.addRates(pods)
	s.addRoot(&node)
	s.addNoSwap(&node, pods)
	node.SystemContainers = s.systemContainers(pods, metav1.NewTime(s.lastAt))
	s.addDisk(pods, node)
	return &statsapi.Summary{Node: node, Pods: pods}, nil
}

// node returns the statistics of the machine.
func (s *sampler) node(ctx context.Context) statsapi.NodeStats {
	usage, err := s.opts.Machine.Usage(s.opts.RootDir)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Statistics of the node lack what cannot be read")
	}

	now := time.Now()
	at := metav1.NewTime(now)
	node := statsapi.NodeStats{NodeName: s.opts.NodeName, StartTime: metav1.NewTime(usage.Boot),
		Fs: &statsapi.FsStats{Time: at}}
	s.addMachine(&node, usage, now)

	if usage.SwapTotal > 0 {
		node.Swap = &statsapi.SwapStats{Time: at, SwapAvailableBytes: number(usage.SwapFree),
			SwapUsageBytes: number(usage.SwapTotal - min(usage.SwapTotal, usage.SwapFree))}
	}
	if usage.MaxTasks > 0 {
		most, now := int64(usage.MaxTasks), int64(usage.Tasks)
		node.Rlimit = &statsapi.RlimitStats{Time: at, MaxPID: &most, NumOfRunningProcesses: &now}
	}
	node.Network = networkOf(usage.Interfaces, at)
	if usage.Inodes > 0 {
		node.Fs.Inodes = number(usage.Inodes)
		node.Fs.InodesFree = number(usage.InodesFree)
		node.Fs.InodesUsed = number(usage.Inodes - min(usage.Inodes, usage.InodesFree))
	}

	if fs := s.images(ctx, node.Fs); fs != nil {
		node.Runtime = &statsapi.RuntimeStats{ImageFs: fs, ContainerFs: fs}
	}
	return node
}

// addNoSwap says that no swap space is used where there is none. The runtime does not say so with cgroups of version
// 1; Windows has no such space.
func (s *sampler) addNoSwap(node *statsapi.NodeStats, pods []statsapi.PodStats) {
	if s.opts.Machine.Cgroups.Reader == nil || s.last.SwapTotal > 0 {
		return
	}
	add := func(swap **statsapi.SwapStats, m *statsapi.MemoryStats) {
		if *swap == nil && m != nil {
			*swap = &statsapi.SwapStats{Time: m.Time, SwapUsageBytes: number(0)}
		}
	}

	if add(&node.Swap, node.Memory); node.Swap != nil {
		node.Swap.SwapAvailableBytes = number(0)
	}
	for i := range pods {
		add(&pods[i].Swap, pods[i].Memory)
		for j := range pods[i].Containers {
			add(&pods[i].Containers[j].Swap, pods[i].Containers[j].Memory)
		}
	}
}

// images returns the usage of the file system of images, at most diskAge old; nil if the runtime did not answer yet.
// If the runtime does not report the size of the file system, it is that of the node's own, where images are by
// default.
func (s *sampler) images(ctx context.Context, node *statsapi.FsStats) *statsapi.FsStats {
	// An error leaves the last figures, however old they are.
	if s.imageFs == nil || time.Since(s.imageAt) > diskAge {
		fs, err := s.opts.Stats.ImageFs(ctx)
		if err != nil {
			return s.imageFs
		}
		whole := *fs
		if whole.InodesUsed == nil {
			whole.InodesUsed = node.InodesUsed
		}
		if whole.AvailableBytes == nil {
			whole.AvailableBytes = node.AvailableBytes
			whole.CapacityBytes = node.CapacityBytes
			whole.Inodes = node.Inodes
			whole.InodesFree = node.InodesFree
		}
		s.imageFs, s.imageAt = &whole, time.Now()
	}
	return s.imageFs
}

// addMachine adds processors, memory and disk. What could not be read is left out: a zero would be a counter that
// falls.
func (s *sampler) addMachine(node *statsapi.NodeStats, usage platform.Usage, now time.Time) {
	at := metav1.NewTime(now)
	// A rate needs two readings of a counter that did not fall.
	if usage.CPUNanoseconds > 0 {
		rate := uint64(0)
		if passed := now.Sub(s.lastAt); !s.lastAt.IsZero() && passed > 0 && s.last.CPUNanoseconds > 0 &&
			usage.CPUNanoseconds >= s.last.CPUNanoseconds {
			rate = uint64(float64(usage.CPUNanoseconds-s.last.CPUNanoseconds) / passed.Seconds())
		}
		node.CPU = &statsapi.CPUStats{Time: at, UsageCoreNanoSeconds: number(usage.CPUNanoseconds),
			UsageNanoCores: &rate}
	}

	if usage.MemoryTotal > 0 {
		// what is left is what eviction goes by; the kernel's own estimate counts more of the page cache as free
		left := usage.MemoryTotal - min(usage.MemoryTotal, usage.MemoryWorkingSet)
		node.Memory = &statsapi.MemoryStats{Time: at, UsageBytes: number(usage.MemoryUsed),
			AvailableBytes: number(left), WorkingSetBytes: number(usage.MemoryWorkingSet)}
		node.Memory.PageFaults = known(usage.MemoryFaults)
		node.Memory.MajorPageFaults = known(usage.MemoryMajorFaults)
	}
	if usage.DiskTotal > 0 {
		node.Fs.CapacityBytes = number(usage.DiskTotal)
		node.Fs.AvailableBytes = number(usage.DiskAvailable)
		node.Fs.UsedBytes = number(usage.DiskTotal - usage.DiskFree)
	}
	s.last, s.lastAt = usage, now
}

// number is a pointer to n, as the types of the API have it.
func number(n uint64) *uint64 { return &n }

// known returns nil for a zero, which means that nobody counted.
func known(n uint64) *uint64 {
	if n == 0 {
		return nil
	}
	return &n
}

// networkOf returns the statistics of the node's interfaces. The one of the default route also stands by itself.
func networkOf(interfaces []platform.InterfaceUsage, at metav1.Time) *statsapi.NetworkStats {
	if len(interfaces) == 0 {
		return nil
	}
	out := &statsapi.NetworkStats{Time: at}
	for _, i := range interfaces {
		one := statsapi.InterfaceStats{Name: i.Name, RxBytes: number(i.RxBytes), RxErrors: number(i.RxErrors),
			TxBytes: number(i.TxBytes), TxErrors: number(i.TxErrors)}
		if i.Default {
			out.InterfaceStats = one
		}
		out.Interfaces = append(out.Interfaces, one)
	}
	return out
}

// began is the time at which this program initialized its packages, shortly after the process started.
var began = time.Now()

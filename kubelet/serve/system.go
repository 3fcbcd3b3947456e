package serve

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/kubelet/usage"
)

// spent is the processor time of something at a time, for the rate of its use.
type spent struct {
	nanoseconds uint64
	at          time.Time
}

// groupsAge is how old the figures of cgroups on a page of metrics may be: several who read at the same time cost one
// round.
const groupsAge = 2 * time.Second

// others are the cgroups that are shown beside those of pods.
func (c CgroupOptions) others() []string {
	out := []string{"/"}
	if c.Cgroup != nil && c.Cgroup() != "" {
		out = append(out, c.Cgroup())
	}
	if c.Misc != "" {
		out = append(out, c.Misc)
	}
	return out
}

// rate returns how many nanoseconds per second something has used since it was asked about last; 0 the first time.
// Counters that fell, and clocks that went back, give 0.
func (s *sampler) rate(name string, now spent) *uint64 {
	before, known := s.rates[name]
	s.rates[name] = now
	passed := now.at.Sub(before.at)
	if !known || passed <= 0 || now.nanoseconds < before.nanoseconds {
		return number(0)
	}
	return number(uint64(float64(now.nanoseconds-before.nanoseconds) / passed.Seconds()))
}

// addRates adds the rates of processor use that the runtime does not tell, or tells as zero: containerd does for what
// it was asked about a moment ago.
// Entries of containers that are gone are dropped: only those that are asked about are taken over.
func (s *sampler) addRates(pods []statsapi.PodStats) {
	before := s.rates
	s.rates = map[string]spent{}
	for _, name := range []string{statsapi.SystemContainerKubelet, statsapi.SystemContainerPods,
		statsapi.SystemContainerRuntime, statsapi.SystemContainerMisc} {
		if last, known := before[name]; known {
			s.rates[name] = last
		}
	}
	one := func(name string, c *statsapi.CPUStats) {
		if c == nil || c.UsageCoreNanoSeconds == nil {
			return
		}
		now := spent{*c.UsageCoreNanoSeconds, c.Time.Time}
		// rate compares with what is in s.rates.
		if last, known := before[name]; known {
			s.rates[name] = last
		}
		if rate := s.rate(name, now); c.UsageNanoCores == nil || *c.UsageNanoCores == 0 {
			c.UsageNanoCores = rate
		}
	}

	for i := range pods {
		p := &pods[i]
		one(p.PodRef.UID, p.CPU)
		for j := range p.Containers {
			one(p.PodRef.UID+"/"+p.Containers[j].Name, p.Containers[j].CPU)
		}
	}
}

// addRoot adds what the root of the cgroups tells of the machine: as with upstream, page faults are those of processes
// that are in no other cgroup, with version 1.
func (s *sampler) addRoot(node *statsapi.NodeStats) {
	g, ok := s.group("/")
	if !ok || node.Memory == nil {
		return
	}
	node.Memory.RSSBytes = number(g.Memory.RSS)
	node.Memory.PageFaults = number(g.Memory.OwnFaults)
	node.Memory.MajorPageFaults = number(g.Memory.OwnMajorFaults)
	// The pressure of the root is that of the machine.
	if p := g.Pressure; p != nil && node.CPU != nil {
		node.CPU.PSI = waits(&p.CPU)
		node.Memory.PSI = waits(&p.Memory)
		node.IO = &statsapi.IOStats{Time: metav1.NewTime(g.At), PSI: waits(&p.IO)}
	}
}

// systemContainers returns parts of the node that are not containers, under upstream's names: the kubelet itself, all
// pods together, the runtime, the system's other processes, and on Windows the committed memory.
func (s *sampler) systemContainers(pods []statsapi.PodStats, at metav1.Time) []statsapi.ContainerStats {
	out := []statsapi.ContainerStats{s.itself(at)}
	c := s.opts.Machine.Cgroups
	// Without a cgroup of all pods their figures are added up.
	if g, ok := s.ofPods(); ok {
		out = append(out, s.ofGroup(statsapi.SystemContainerPods, &g))
	} else {
		out = append(out, sumOf(pods, at, metav1.NewTime(s.last.Boot)))
	}
	if c.Runtime != nil {
		if g, ok := c.Runtime(); ok {
			out = append(out, s.ofGroup(statsapi.SystemContainerRuntime, &g))
		}
	}
	if g, ok := s.group(c.Misc); ok {
		out = append(out, s.ofGroup(statsapi.SystemContainerMisc, &g))
	}

	if u := s.last; u.CommitLimit > 0 {
		out = append(out, statsapi.ContainerStats{Name: statsapi.SystemContainerWindowsGlobalCommitMemory,
			StartTime: metav1.NewTime(u.Boot),
			Memory: &statsapi.MemoryStats{Time: at,
				AvailableBytes: number(u.CommitLimit - min(u.CommitLimit, u.CommitTotal)),
				UsageBytes:     number(u.CommitTotal)}})
	}
	return out
}

// ofPods reads the cgroup of all pods. It returns false if there is none.
func (s *sampler) ofPods() (usage.Group, bool) {
	if s.opts.Machine.Cgroups.Pods == nil {
		return usage.Group{}, false
	}
	return s.group(s.opts.Machine.Cgroups.Pods())
}

// group reads one cgroup. It returns false if there is none.
func (s *sampler) group(path string) (usage.Group, bool) {
	if s.opts.Machine.Cgroups.Reader == nil || path == "" {
		return usage.Group{}, false
	}
	return s.opts.Machine.Cgroups.Reader.One(path)
}

// itself returns what this process uses.
func (s *sampler) itself(at metav1.Time) statsapi.ContainerStats {
	u := s.last
	out := statsapi.ContainerStats{Name: statsapi.SystemContainerKubelet, StartTime: metav1.NewTime(began),
		CPU: &statsapi.CPUStats{Time: at, UsageCoreNanoSeconds: number(u.OwnCPUNanoseconds),
			UsageNanoCores: s.rate(statsapi.SystemContainerKubelet, spent{u.OwnCPUNanoseconds, at.Time})},
		Memory: &statsapi.MemoryStats{Time: at, WorkingSetBytes: number(u.OwnMemory), RSSBytes: number(u.OwnMemory),
			UsageBytes: number(u.OwnMemory)}}
	if u.OwnFaults > 0 {
		out.Memory.PageFaults = number(u.OwnFaults)
		out.Memory.MajorPageFaults = number(u.OwnMajorFaults)
	}
	return out
}

// ofGroup returns what a cgroup uses.
func (s *sampler) ofGroup(name string, g *usage.Group) statsapi.ContainerStats {
	at := metav1.NewTime(g.At)
	out := statsapi.ContainerStats{Name: name, StartTime: metav1.NewTime(g.Created),
		CPU: &statsapi.CPUStats{Time: at, UsageCoreNanoSeconds: number(g.CPU.Total),
			UsageNanoCores: s.rate(name, spent{g.CPU.Total, g.At})},
		Memory: &statsapi.MemoryStats{Time: at, UsageBytes: number(g.Memory.Usage),
			WorkingSetBytes: number(g.Memory.WorkingSet), RSSBytes: number(g.Memory.RSS),
			PageFaults: number(g.Memory.Faults), MajorPageFaults: number(g.Memory.MajorFaults)}}
	if g.Memory.Limited {
		out.Memory.AvailableBytes = number(g.Memory.Limit - min(g.Memory.Limit, g.Memory.WorkingSet))
	}
	if p := g.Pressure; p != nil {
		out.CPU.PSI = waits(&p.CPU)
		out.Memory.PSI = waits(&p.Memory)
		out.IO = &statsapi.IOStats{Time: at, PSI: waits(&p.IO)}
	}
	return out
}

// waits copies the kernel's figures into the types of the API.
func waits(w *usage.Waits) *statsapi.PSIStats {
	data := func(w usage.Wait) statsapi.PSIData {
		return statsapi.PSIData{Total: w.Total, Avg10: w.Avg10, Avg60: w.Avg60, Avg300: w.Avg300}
	}
	return &statsapi.PSIStats{Some: data(w.Some), Full: data(w.Full)}
}

// sumOf adds up what pods use, where nobody measures all of them together.
func sumOf(pods []statsapi.PodStats, at, boot metav1.Time) statsapi.ContainerStats {
	all := statsapi.ContainerStats{Name: statsapi.SystemContainerPods, StartTime: boot,
		CPU: &statsapi.CPUStats{Time: at}, Memory: &statsapi.MemoryStats{Time: at}}
	// A sum is nil as long as no pod has the figure.
	add := func(to **uint64, n *uint64) {
		if n != nil && *to == nil {
			*to = number(0)
		}
		if n != nil {
			**to += *n
		}
	}

	for _, p := range pods {
		if p.CPU != nil {
			add(&all.CPU.UsageCoreNanoSeconds, p.CPU.UsageCoreNanoSeconds)
			add(&all.CPU.UsageNanoCores, p.CPU.UsageNanoCores)
		}
		if p.Memory != nil {
			add(&all.Memory.WorkingSetBytes, p.Memory.WorkingSetBytes)
			add(&all.Memory.UsageBytes, p.Memory.UsageBytes)
			add(&all.Memory.RSSBytes, p.Memory.RSSBytes)
		}
	}
	return all
}

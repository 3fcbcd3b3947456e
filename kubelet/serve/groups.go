package serve

import (
	"path"
	"slices"
	"strings"

	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/usage"
)

// family is the series of one name that are made of cgroups, under cAdvisor's name and with its help.
type family struct {
	name, help string
	counter    bool
	labels     []string // beside those of all containers
	// values calls out for each series of a cgroup. of tells what else is known of it.
	// Series are called out in the order in which they are written; labels are values of the
	// family's labels.
	values func(g *usage.Group, of *owner, out func(value float64, labels ...string))
}

// owner is whose a cgroup is.
type owner struct {
	// labels are those of all its series, written as in the page: container="c",id="/kubepods/…",…
	labels string
	// sandbox says that the network of the cgroup's first process is the pod's, container that it is a container of a
	// pod.
	sandbox, container bool
	started            float64 // of the container, in seconds since 1970; 0 if it is not known
}

// owners returns the pod or container that each cgroup belongs to, in the same order. It goes by the names of cgroups:
// the ID of a container or sandbox, or "pod" and the pod's UID. With systemd these names have prefixes and suffixes,
// which do not count.
func owners(groups []usage.Group, pods []pod.View) []owner {
	type part struct {
		name, image string
		sandbox     bool
		started     float64
	}
	// parts are found by the ID of the container or sandbox.
	views, parts := map[string]*pod.View{}, map[string]part{}
	for i := range pods {
		v := &pods[i]
		views["pod"+string(v.Pod.UID)] = v
		if v.SandboxID != "" {
			parts[v.SandboxID] = part{sandbox: true}
		}
		for _, c := range statusesOf(v.Pod) {
			one := part{name: c.Name, image: c.Image}
			if r := c.State.Running; r != nil {
				one.started = float64(r.StartedAt.Unix())
			}
			parts[shortID(c.ContainerID)] = one
		}
	}

	// A cgroup is a pod's by its own name, or a part of a pod by the name of the one above it.
	out := make([]owner, len(groups))
	for i := range groups {
		at := groups[i].Path
		id, name, p := "", cgroup.NameIn(at), part{}
		v := views[name]
		if v == nil {
			v = views[cgroup.NameIn(path.Dir(at))]
			if v != nil {
				id, p = name, parts[name]
			}
		}
		namespace, called := "", ""
		if v != nil {
			namespace, called = v.Pod.Namespace, v.Pod.Name
		}
		out[i] = owner{sandbox: p.sandbox, container: p.name != "", started: p.started,
			labels: label("container", p.name) + "," + label("id", at) + "," + label("image", p.image) + "," +
				label("name", id) + "," + label("namespace", namespace) + "," + label("pod", called)}
	}
	return out
}

// labelEscaper escapes what Prometheus' text format wants escaped in values.
var labelEscaper = strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`)

// label writes a label as in the page.
func label(name, value string) string { return name + `="` + labelEscaper.Replace(value) + `"` }

// gauge and counter are families with one series for each cgroup.
func gauge(name, help string, value func(*usage.Group) float64) family {
	return family{name: "container_" + name, help: help,
		values: func(g *usage.Group, _ *owner, out func(float64, ...string)) { out(value(g)) }}
}

func counter(name, help string, value func(*usage.Group) float64) family {
	f := gauge(name, help, value)
	f.counter = true
	return f
}

// only leaves out the cgroups of a family for which has is false.
func only(f family, has func(*usage.Group, *owner) bool) family {
	all := f.values
	f.values = func(g *usage.Group, of *owner, out func(float64, ...string)) {
		if has(g, of) {
			all(g, of, out)
		}
	}
	return f
}

// The conditions of families: a quota is set, the kernel counts what was waited for, limits of
// memory can be set, bursts are counted. Without them cAdvisor has no series.
func limited(g *usage.Group, _ *owner) bool   { return g.CPU.Quota > 0 }
func pressured(g *usage.Group, _ *owner) bool { return g.Pressure != nil }
func withRAM(g *usage.Group, _ *owner) bool   { return g.Memory.HasLimits }
func bursting(g *usage.Group, _ *owner) bool  { return g.CPU.Quota > 0 && g.CPU.HasBursts > 0 }

// network returns a family of the interfaces of pods and of the machine.
func network(name, help string, value func(*usage.Interface) uint64) family {
	return family{name: "container_network_" + name, help: help, counter: true, labels: []string{"interface"},
		values: func(g *usage.Group, of *owner, out func(float64, ...string)) {
			if !of.sandbox && g.Path != "/" {
				return
			}
			for i := range g.Interfaces {
				out(float64(value(&g.Interfaces[i])), g.Interfaces[i].Name)
			}
		}}
}

// disk returns a family of the devices that were read or written. A container that did neither has a series with
// zeros, which says so.
func disk(name, help string, value func(*usage.Disk) uint64) family {
	return family{name: "container_fs_" + name, help: help, counter: true, labels: []string{"device"},
		values: func(g *usage.Group, of *owner, out func(float64, ...string)) {
			for i := range g.Disks {
				out(float64(value(&g.Disks[i])), g.Disks[i].Name)
			}
			if len(g.Disks) == 0 && of.container {
				out(0, "")
			}
		}}
}

func seconds(nanoseconds uint64) float64 { return float64(nanoseconds) / 1e9 }

// filesystem returns a family of the machine's file systems.
func filesystem(name, help string, counter bool, value func(*usage.Filesystem) float64) family {
	return family{name: "container_fs_" + name, help: help, counter: counter, labels: []string{"device"},
		values: func(g *usage.Group, _ *owner, out func(float64, ...string)) {
			for i := range g.Filesystems {
				out(value(&g.Filesystems[i]), g.Filesystems[i].Device)
			}
		}}
}

func milliseconds(n uint64) float64 { return float64(n) / 1e3 }

// filesystems are the families of the machine's file systems.
var filesystems = []family{
	filesystem("inodes_free", "Number of available Inodes", false,
		func(f *usage.Filesystem) float64 { return float64(f.InodesFree) }),
	filesystem("inodes_total", "Number of Inodes", false,
		func(f *usage.Filesystem) float64 { return float64(f.Inodes) }),
	filesystem("limit_bytes", "Number of bytes that can be consumed by the container on this filesystem.", false,
		func(f *usage.Filesystem) float64 { return float64(f.Size) }),
	filesystem("sector_reads_total", "Cumulative count of sector reads completed", true,
		func(f *usage.Filesystem) float64 { return float64(f.SectorsRead) }),
	filesystem("reads_merged_total", "Cumulative count of reads merged", true,
		func(f *usage.Filesystem) float64 { return float64(f.ReadsMerged) }),
	filesystem("read_seconds_total", "Cumulative count of seconds spent reading", true,
		func(f *usage.Filesystem) float64 { return milliseconds(f.ReadTime) }),
	filesystem("sector_writes_total", "Cumulative count of sector writes completed", true,
		func(f *usage.Filesystem) float64 { return float64(f.SectorsWritten) }),
	filesystem("writes_merged_total", "Cumulative count of writes merged", true,
		func(f *usage.Filesystem) float64 { return float64(f.WritesMerged) }),
	filesystem("write_seconds_total", "Cumulative count of seconds spent writing", true,
		func(f *usage.Filesystem) float64 { return milliseconds(f.WriteTime) }),
	filesystem("io_current", "Number of I/Os currently in progress", false,
		func(f *usage.Filesystem) float64 { return float64(f.Current) }),
	filesystem("io_time_seconds_total", "Cumulative count of seconds spent doing I/Os", true,
		func(f *usage.Filesystem) float64 { return milliseconds(f.BusyTime) }),
	filesystem("io_time_weighted_seconds_total", "Cumulative weighted I/O time in seconds", true,
		func(f *usage.Filesystem) float64 { return milliseconds(f.WeightedTime) }),
}

// families are all that is made of cgroups. cAdvisor's source is metrics/prometheus.go of github.com/google/cadvisor.
var families = append([]family{
	gauge("last_seen", "Last time a container was seen by the exporter",
		func(g *usage.Group) float64 { return float64(g.At.Unix()) }),
	{name: "container_start_time_seconds", help: "Start time of the container since unix epoch in seconds.",
		values: func(g *usage.Group, of *owner, out func(float64, ...string)) {
			if of.started > 0 {
				out(of.started)
			} else {
				out(float64(g.Created.Unix()))
			}
		}},
	{name: "container_cpu_usage_seconds_total", help: "Cumulative cpu time consumed in seconds.", counter: true,
		labels: []string{"cpu"},
		values: func(g *usage.Group, _ *owner, out func(float64, ...string)) { out(seconds(g.CPU.Total), "total") }},
	counter("cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.",
		func(g *usage.Group) float64 { return seconds(g.CPU.User) }),
	counter("cpu_system_seconds_total", "Cumulative system cpu time consumed in seconds.",
		func(g *usage.Group) float64 { return seconds(g.CPU.System) }),
	only(counter("cpu_cfs_periods_total", "Number of elapsed enforcement period intervals.",
		func(g *usage.Group) float64 { return float64(g.CPU.Periods) }), limited),
	only(counter("cpu_cfs_throttled_periods_total", "Number of throttled period intervals.",
		func(g *usage.Group) float64 { return float64(g.CPU.Throttled) }), limited),
	only(counter("cpu_cfs_throttled_seconds_total", "Total time duration the container has been throttled.",
		func(g *usage.Group) float64 { return seconds(g.CPU.ThrottledTime) }), limited),
	only(counter("cpu_cfs_burst_periods_total", "Number of periods when burst occurs.",
		func(g *usage.Group) float64 { return float64(g.CPU.Bursts) }), bursting),
	only(counter("cpu_cfs_burst_seconds_total", "Total time duration the container has been bursted.",
		func(g *usage.Group) float64 { return seconds(g.CPU.BurstTime) }), bursting),
	gauge("spec_cpu_period", "CPU period of the container.",
		func(g *usage.Group) float64 { return float64(g.CPU.Period) }),
	only(gauge("spec_cpu_quota", "CPU quota of the container.",
		func(g *usage.Group) float64 { return float64(g.CPU.Quota) }), limited),
	gauge("spec_cpu_shares", "CPU share of the container.",
		func(g *usage.Group) float64 { return float64(g.CPU.Shares) }),
	only(gauge("spec_memory_limit_bytes", "Memory limit for the container.",
		func(g *usage.Group) float64 { return float64(g.Memory.Limit) }), withRAM),
	only(gauge("spec_memory_swap_limit_bytes", "Memory swap limit for the container.",
		func(g *usage.Group) float64 { return float64(g.Memory.SwapLimit) }), withRAM),
	only(gauge("spec_memory_reservation_limit_bytes", "Memory reservation limit for the container.",
		func(g *usage.Group) float64 { return float64(g.Memory.Reserved) }), withRAM),
	gauge("memory_cache", "Number of bytes of page cache memory.",
		func(g *usage.Group) float64 { return float64(g.Memory.Cache) }),
	gauge("memory_rss", "Size of RSS in bytes.", func(g *usage.Group) float64 { return float64(g.Memory.RSS) }),
	gauge("memory_kernel_usage", "Size of kernel memory allocated in bytes.",
		func(g *usage.Group) float64 { return float64(g.Memory.Kernel) }),
	gauge("memory_mapped_file", "Size of memory mapped files in bytes.",
		func(g *usage.Group) float64 { return float64(g.Memory.Mapped) }),
	gauge("memory_swap", "Container swap usage in bytes.",
		func(g *usage.Group) float64 { return float64(g.Memory.Swap) }),
	counter("memory_failcnt", "Number of memory usage hits limits",
		func(g *usage.Group) float64 { return float64(g.Memory.Failures) }),
	gauge("memory_usage_bytes",
		"Current memory usage in bytes, including all memory regardless of when it was accessed",
		func(g *usage.Group) float64 { return float64(g.Memory.Usage) }),
	gauge("memory_max_usage_bytes", "Maximum memory usage recorded in bytes",
		func(g *usage.Group) float64 { return float64(g.Memory.Most) }),
	gauge("memory_working_set_bytes", "Current working set in bytes.",
		func(g *usage.Group) float64 { return float64(g.Memory.WorkingSet) }),
	gauge("memory_total_active_file_bytes", "Current total active file in bytes.",
		func(g *usage.Group) float64 { return float64(g.Memory.ActiveFile) }),
	gauge("memory_total_inactive_file_bytes", "Current total inactive file in bytes.",
		func(g *usage.Group) float64 { return float64(g.Memory.InactiveFile) }),
	{name: "container_memory_failures_total", help: "Cumulative count of memory allocation failures.", counter: true,
		labels: []string{"failure_type", "scope"},
		values: func(g *usage.Group, _ *owner, out func(float64, ...string)) {
			out(float64(g.Memory.OwnFaults), "pgfault", "container")
			out(float64(g.Memory.OwnMajorFaults), "pgmajfault", "container")
			out(float64(g.Memory.Faults), "pgfault", "hierarchy")
			out(float64(g.Memory.MajorFaults), "pgmajfault", "hierarchy")
		}},
	counter("oom_events_total", "Count of out of memory events observed for the container",
		func(g *usage.Group) float64 { return float64(g.Memory.Kills) }),
	{name: "container_blkio_device_usage_total", help: "Blkio Device bytes usage", counter: true,
		labels: []string{"device", "major", "minor", "operation"}, values: blkio},
	gauge("processes", "Number of processes running inside the container.",
		func(g *usage.Group) float64 { return float64(g.Tasks.Processes) }),
	gauge("threads", "Number of threads running inside the container",
		func(g *usage.Group) float64 { return float64(g.Tasks.Threads) }),
	gauge("threads_max", "Maximum number of threads allowed inside the container, infinity if value is zero",
		func(g *usage.Group) float64 { return float64(g.Tasks.ThreadsMax) }),
	gauge("file_descriptors", "Number of open file descriptors for the container.",
		func(g *usage.Group) float64 { return float64(g.Tasks.Files) }),
	gauge("sockets", "Number of open sockets for the container.",
		func(g *usage.Group) float64 { return float64(g.Tasks.Sockets) }),
	{name: "container_ulimits_soft",
		help:   "Soft ulimit values for the container root process. Unlimited if -1, except priority and nice",
		labels: []string{"ulimit"},
		values: func(g *usage.Group, _ *owner, out func(float64, ...string)) {
			if g.Tasks.HasOpenFiles {
				out(float64(g.Tasks.OpenFiles), "max_open_files")
			}
		}},
	disk("reads_bytes_total", "Cumulative count of bytes read", func(d *usage.Disk) uint64 { return d.ReadBytes }),
	disk("reads_total", "Cumulative count of reads completed", func(d *usage.Disk) uint64 { return d.Reads }),
	disk("writes_bytes_total", "Cumulative count of bytes written", func(d *usage.Disk) uint64 { return d.WroteBytes }),
	disk("writes_total", "Cumulative count of writes completed", func(d *usage.Disk) uint64 { return d.Writes }),
	network("receive_bytes_total", "Cumulative count of bytes received",
		func(i *usage.Interface) uint64 { return i.RxBytes }),
	network("receive_packets_total", "Cumulative count of packets received",
		func(i *usage.Interface) uint64 { return i.RxPackets }),
	network("receive_packets_dropped_total", "Cumulative count of packets dropped while receiving",
		func(i *usage.Interface) uint64 { return i.RxDropped }),
	network("receive_errors_total", "Cumulative count of errors encountered while receiving",
		func(i *usage.Interface) uint64 { return i.RxErrors }),
	network("transmit_bytes_total", "Cumulative count of bytes transmitted",
		func(i *usage.Interface) uint64 { return i.TxBytes }),
	network("transmit_packets_total", "Cumulative count of packets transmitted",
		func(i *usage.Interface) uint64 { return i.TxPackets }),
	network("transmit_packets_dropped_total", "Cumulative count of packets dropped while transmitting",
		func(i *usage.Interface) uint64 { return i.TxDropped }),
	network("transmit_errors_total", "Cumulative count of errors encountered while transmitting",
		func(i *usage.Interface) uint64 { return i.TxErrors }),
}, slices.Concat(filesystems, pressures())...)

// blkio sends what was read and written by the operations that the kernel names; a container that did neither has one
// series, a zero.
func blkio(g *usage.Group, of *owner, out func(float64, ...string)) {
	for i := range g.Disks {
		d := &g.Disks[i]
		out(float64(d.ReadBytes), d.Name, d.Major, d.Minor, "Read")
		out(float64(d.WroteBytes), d.Name, d.Major, d.Minor, "Write")
		for operation, n := range d.Other {
			out(float64(n), d.Name, d.Major, d.Minor, operation)
		}
	}
	if len(g.Disks) == 0 && of.container {
		out(0, "", "", "", "Read")
	}
}

// pressures are the families of what was waited for.
func pressures() (out []family) {
	for _, kind := range []struct {
		name string
		of   func(*usage.Pressure) *usage.Waits
	}{{"cpu", func(p *usage.Pressure) *usage.Waits { return &p.CPU }}, {"memory",
		func(p *usage.Pressure) *usage.Waits { return &p.Memory }},
		{"io", func(p *usage.Pressure) *usage.Waits { return &p.IO }}} {
		out = append(out,
			only(counter("pressure_"+kind.name+"_stalled_seconds_total",
				"Total time duration no tasks in the container could make progress due to "+kind.name+" congestion.",
				func(g *usage.Group) float64 { return float64(kind.of(g.Pressure).Full.Total) / 1e6 }), pressured),
			only(counter("pressure_"+kind.name+"_waiting_seconds_total",
				"Total time duration tasks in the container have waited due to "+kind.name+" congestion.",
				func(g *usage.Group) float64 { return float64(kind.of(g.Pressure).Some.Total) / 1e6 }), pressured))
	}
	return out
}

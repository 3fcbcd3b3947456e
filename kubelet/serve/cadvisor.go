package serve

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/usage"
)

// containerLabels are the labels of all series of containers. The series of a whole pod have an empty container and
// image.
var containerLabels = []string{"container", "id", "image", "name", "namespace", "pod"}

// The series that the kubelet makes from the usage that the runtime reports, under cAdvisor's names.
var (
	cadvisorCPU = desc("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.",
		append([]string{"cpu"}, containerLabels...)...)
	cadvisorWorking = desc("container_memory_working_set_bytes", "Current working set in bytes.", containerLabels...)
	cadvisorUsage   = desc("container_memory_usage_bytes",
		"Current memory usage in bytes, including all memory regardless of when it was accessed", containerLabels...)
	cadvisorRSS = desc("container_memory_rss", "Size of RSS in bytes.", containerLabels...)
	cadvisorFs  = desc("container_fs_usage_bytes",
		"Number of bytes that are consumed by the container on this filesystem.",
		append([]string{"device"}, containerLabels...)...)
	cadvisorStart = desc("container_start_time_seconds", "Start time of the container since unix epoch in seconds.",
		containerLabels...)
	cadvisorRx = desc("container_network_receive_bytes_total", "Cumulative count of bytes received",
		append([]string{"interface"}, containerLabels...)...)
	cadvisorTx = desc("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted",
		append([]string{"interface"}, containerLabels...)...)
	cadvisorRxErrors = desc("container_network_receive_errors_total",
		"Cumulative count of errors encountered while receiving", append([]string{"interface"}, containerLabels...)...)
	cadvisorTxErrors = desc("container_network_transmit_errors_total",
		"Cumulative count of errors encountered while transmitting",
		append([]string{"interface"}, containerLabels...)...)
	cadvisorFailed = desc("container_scrape_error",
		"1 if there was an error while getting container metrics, 0 otherwise")
	cadvisorVersion = desc("cadvisor_version_info",
		"A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version & cadvisor revision.",
		"cadvisorRevision", "cadvisorVersion", "dockerVersion", "kernelVersion", "osVersion")
	machineCPUs  = desc("machine_cpu_cores", "Number of logical CPU cores.", "boot_id", "machine_id", "system_uuid")
	machineCores = desc("machine_cpu_physical_cores", "Number of physical CPU cores.", "boot_id", "machine_id",
		"system_uuid")
	machineSockets = desc("machine_cpu_sockets", "Number of CPU sockets.", "boot_id", "machine_id", "system_uuid")
	machineSwap    = desc("machine_swap_bytes", "Amount of swap memory available on the machine.", "boot_id",
		"machine_id", "system_uuid")
	machineFailed = desc("machine_scrape_error", "1 if there was an error while getting machine metrics, 0 otherwise.")
	machineMemory = desc("machine_memory_bytes", "Amount of memory installed on the machine.", "boot_id", "machine_id",
		"system_uuid")
)

// ours are the names of the series above. The runtime's own series of these names are left out: containerd 2.3 counts
// CPU time in whole seconds, gives start times in nanoseconds, and omits pods in which a container has ended.
var ours = map[string]bool{"container_cpu_usage_seconds_total": true, "container_memory_working_set_bytes": true,
	"container_memory_usage_bytes": true,
	"container_memory_rss":         true, "container_fs_usage_bytes": true, "container_start_time_seconds": true,
	"container_network_receive_bytes_total":  true,
	"container_network_transmit_bytes_total": true, "container_network_receive_errors_total": true,
	"container_network_transmit_errors_total": true}

// containerMetrics answers /metrics/cadvisor. With cgroups to read, the series of containers come
// from these; else from the runtime's statistics and from what the runtime measures itself.
func (s *Server) containerMetrics(w http.ResponseWriter, r *http.Request) {
	all, err := s.stats.get(r.Context())
	c := containers{all: all, failed: err != nil, machine: s.opts.Machine, known: identities(s.opts.Pods())}
	if s.groups.ask != nil {
		groups, err := s.groups.get(r.Context())
		if c.failed = err != nil; !c.failed {
			c.byGroup = owners(groups, s.opts.Pods())
			c.places = places(groups)
			c.disks = filesystemsOf(groups)
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(c)
		writePage(w, r, registry, groups, c.byGroup)
		return
	}
	// The runtime's own metrics are an addition: without them the page has fewer series.
	if s.metrics.ask != nil {
		if c.more, err = s.metrics.get(r.Context()); err != nil {
			klog.FromContext(r.Context()).Error(err, "The runtime's own metrics are left out")
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
}

// identity is the ID and the image of a container; both are empty if the container is not known.
// The ID is without the name of the runtime, as cAdvisor has it.
type identity struct{ id, image string }

// identities returns the identities of all containers, by UID of the pod and name of the container.
func identities(pods []pod.View) map[[2]string]identity {
	known := map[[2]string]identity{}
	for _, p := range pods {
		for _, c := range statusesOf(p.Pod) {
			known[[2]string{string(p.Pod.UID), c.Name}] = identity{id: shortID(c.ContainerID), image: c.Image}
		}
	}
	return known
}

// statusesOf returns the statuses of all containers of a pod.
func statusesOf(p *v1.Pod) []v1.ContainerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
		p.Status.EphemeralContainerStatuses)
}

// containers turns statistics into cAdvisor's metrics.
// failed leaves out all series of containers; more is used without cgroups only.
type containers struct {
	all     *statsapi.Summary
	failed  bool
	machine Machine
	known   map[[2]string]identity
	more    []RuntimeMetric
	// byGroup is set if the usage of cgroups stands on the page by itself.
	byGroup []owner
	places  map[string]string // cgroups of pods by UID, and of containers by ID
	disks   []usage.Filesystem
}

// filesystemsOf returns the machine's file systems.
func filesystemsOf(groups []usage.Group) []usage.Filesystem {
	for i := range groups {
		if groups[i].Path == "/" {
			return groups[i].Filesystems
		}
	}
	return nil
}

// places returns the cgroups of pods by UID, and those of containers by ID.
// A pod's cgroup ends with its UID; those right below it are its containers'.
func places(groups []usage.Group) map[string]string {
	out := map[string]string{}
	for i := range groups {
		at := groups[i].Path
		if uid, ok := strings.CutPrefix(cgroup.NameIn(at), "pod"); ok {
			out[uid] = at
		} else if strings.HasPrefix(cgroup.NameIn(path.Dir(at)), "pod") {
			out[cgroup.NameIn(at)] = at
		}
	}
	return out
}

// Describe sends nothing: which metrics there are depends on the pods.
func (c containers) Describe(chan<- *prometheus.Desc) {}

// Collect sends all metrics. If the statistics could not be read, it sends only those of the machine, and
// container_scrape_error.
func (c containers) Collect(out chan<- prometheus.Metric) {
	c.collectMachine(out)
	if c.failed {
		out <- prometheus.MustNewConstMetric(cadvisorFailed, prometheus.GaugeValue, 1)
		return
	}
	out <- prometheus.MustNewConstMetric(cadvisorFailed, prometheus.GaugeValue, 0)
	if c.byGroup != nil {
		c.collectFs(out)
		return
	}
	sendUsage(out, c.all.Node.CPU, c.all.Node.Memory, []string{"", "/", "", "", "", ""})
	for i := range c.all.Pods {
		c.collectPod(out, &c.all.Pods[i])
	}
	c.collectMore(out)
}

// Cores and sockets are left out where they are not known; their zero would be a wrong figure.
func (c containers) collectMachine(out chan<- prometheus.Metric) {
	m := c.machine
	ids := []string{m.BootID, m.MachineID, m.SystemUUID}
	out <- prometheus.MustNewConstMetric(cadvisorVersion, prometheus.GaugeValue, 1, "", "", "", m.KernelVersion,
		m.OSImage)
	out <- prometheus.MustNewConstMetric(machineCPUs, prometheus.GaugeValue, float64(m.CPUs), ids...)
	out <- prometheus.MustNewConstMetric(machineMemory, prometheus.GaugeValue, float64(m.MemoryBytes), ids...)
	out <- prometheus.MustNewConstMetric(machineFailed, prometheus.GaugeValue, 0)
	if m.Cores > 0 {
		out <- prometheus.MustNewConstMetric(machineCores, prometheus.GaugeValue, float64(m.Cores), ids...)
		out <- prometheus.MustNewConstMetric(machineSockets, prometheus.GaugeValue, float64(m.Sockets), ids...)
	}
	// The amount of swap is that of the last statistics: what is used and what is left.
	swap := uint64(0)
	if c.all != nil && c.all.Node.Swap != nil {
		swap = *c.all.Node.Swap.SwapAvailableBytes + *c.all.Node.Swap.SwapUsageBytes
	}
	out <- prometheus.MustNewConstMetric(machineSwap, prometheus.GaugeValue, float64(swap), ids...)
}

// collectFs sends what containers have written into their own file system, which no cgroup tells.
func (c containers) collectFs(out chan<- prometheus.Metric) {
	for i := range c.disks {
		send(out, cadvisorFs, prometheus.GaugeValue, &c.disks[i].Used,
			[]string{c.disks[i].Device, "", "/", "", "", "", ""})
	}
	if c.all == nil {
		return
	}
	for i := range c.all.Pods {
		p := &c.all.Pods[i]
		for j := range p.Containers {
			one := &p.Containers[j]
			is := c.known[[2]string{p.PodRef.UID, one.Name}]
			if one.Rootfs != nil && is.id != "" {
				at, ok := c.places[is.id]
				if !ok { // it has ended
					at = path.Join(c.places[p.PodRef.UID], is.id)
				}
				send(out, cadvisorFs, prometheus.GaugeValue, one.Rootfs.UsedBytes,
					[]string{"", one.Name, at, is.image, is.id, p.PodRef.Namespace, p.PodRef.Name})
			}
		}
	}
}

// collectPod sends the metrics of one pod and of its containers. As with cAdvisor, the series of the pod as a whole
// have an empty container label, and network usage belongs to the pod only.
func (c containers) collectPod(out chan<- prometheus.Metric, p *statsapi.PodStats) {
	pod := []string{"", "", "", "", p.PodRef.Namespace, p.PodRef.Name}
	sendUsage(out, p.CPU, p.Memory, pod)
	if n := p.Network; n != nil {
		at := append([]string{n.Name}, pod...)
		send(out, cadvisorRx, prometheus.CounterValue, n.RxBytes, at)
		send(out, cadvisorTx, prometheus.CounterValue, n.TxBytes, at)
		send(out, cadvisorRxErrors, prometheus.CounterValue, n.RxErrors, at)
		send(out, cadvisorTxErrors, prometheus.CounterValue, n.TxErrors, at)
	}
	for i := range p.Containers {
		one := &p.Containers[i]
		is := c.known[[2]string{p.PodRef.UID, one.Name}]
		labels := []string{one.Name, is.id, is.image, is.id, p.PodRef.Namespace, p.PodRef.Name}
		sendUsage(out, one.CPU, one.Memory, labels)
		if one.Rootfs != nil {
			send(out, cadvisorFs, prometheus.GaugeValue, one.Rootfs.UsedBytes, append([]string{""}, labels...))
		}
		if !one.StartTime.IsZero() {
			out <- prometheus.MustNewConstMetric(cadvisorStart, prometheus.GaugeValue, float64(one.StartTime.Unix()),
				labels...)
		}
	}
}

// collectMore sends the runtime's own metrics, except those that are ours. It leaves out a metric whose values do not
// fit the labels of its kind.
// One description per kind is made, and used for all of its values.
func (c containers) collectMore(out chan<- prometheus.Metric) {
	descs := map[*RuntimeMetricKind]*prometheus.Desc{}
	for i := range c.more {
		m := &c.more[i]
		if ours[m.Kind.Name] {
			continue
		}
		d := descs[m.Kind]
		if d == nil {
			d = desc(m.Kind.Name, m.Kind.Help, m.Kind.Labels...)
			descs[m.Kind] = d
		}

		kind := prometheus.GaugeValue
		if m.Counter {
			kind = prometheus.CounterValue
		}
		metric, err := prometheus.NewConstMetric(d, kind, m.Value, m.Values...)
		if err != nil {
			continue
		}
		if !m.At.IsZero() {
			metric = prometheus.NewMetricWithTimestamp(m.At, metric)
		}
		out <- metric
	}
}

// send sends n, unless it is nil.
func send(out chan<- prometheus.Metric, d *prometheus.Desc, kind prometheus.ValueType, n *uint64, labels []string) {
	if n != nil {
		out <- prometheus.MustNewConstMetric(d, kind, float64(*n), labels...)
	}
}

// sendUsage sends what is known of processors and memory. The label cpu is "total": the kubelet
// does not tell processors apart.
func sendUsage(out chan<- prometheus.Metric, cpu *statsapi.CPUStats, mem *statsapi.MemoryStats, labels []string) {
	if cpu != nil && cpu.UsageCoreNanoSeconds != nil {
		out <- prometheus.MustNewConstMetric(cadvisorCPU, prometheus.CounterValue,
			float64(*cpu.UsageCoreNanoSeconds)/1e9, append([]string{"total"}, labels...)...)
	}
	if mem != nil {
		send(out, cadvisorWorking, prometheus.GaugeValue, mem.WorkingSetBytes, labels)
		send(out, cadvisorUsage, prometheus.GaugeValue, mem.UsageBytes, labels)
		send(out, cadvisorRSS, prometheus.GaugeValue, mem.RSSBytes, labels)
	}
}

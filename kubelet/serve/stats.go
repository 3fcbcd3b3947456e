package serve

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// summary answers /stats/summary.
func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	all, err := s.stats.get(r.Context())
	if err != nil {
		http.Error(w, "reading statistics: "+err.Error(), http.StatusInternalServerError)
		return
	}
	if r.URL.Query().Get("only_cpu_and_memory") == "true" {
		all = onlyCPUAndMemory(all)
	}
	writeJSON(w, all)
}

// onlyCPUAndMemory returns the parts that kubectl top reads.
func onlyCPUAndMemory(all *statsapi.Summary) *statsapi.Summary {
	out := &statsapi.Summary{Node: statsapi.NodeStats{NodeName: all.Node.NodeName, StartTime: all.Node.StartTime,
		CPU:    all.Node.CPU,
		Memory: all.Node.Memory, SystemContainers: all.Node.SystemContainers}, Pods: []statsapi.PodStats{}}
	for _, p := range all.Pods {
		short := statsapi.PodStats{PodRef: p.PodRef, StartTime: p.StartTime, CPU: p.CPU, Memory: p.Memory}
		for _, c := range p.Containers {
			short.Containers = append(short.Containers,
				statsapi.ContainerStats{Name: c.Name, StartTime: c.StartTime, CPU: c.CPU, Memory: c.Memory})
		}
		out.Pods = append(out.Pods, short)
	}
	return out
}

// resourceMetrics answers /metrics/resource. The page has a registry of its own for each request.
func (s *Server) resourceMetrics(w http.ResponseWriter, r *http.Request) {
	all, err := s.stats.get(r.Context())
	registry := prometheus.NewRegistry()
	registry.MustRegister(resources{all: all, failed: err != nil})
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// resources turns statistics into the metrics that metrics-server reads (/metrics/resource).
type resources struct {
	all    *statsapi.Summary
	failed bool
}

// desc is a description without constant labels.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// The names and help texts are upstream's.
var (
	nodeCPU    = desc("node_cpu_usage_seconds_total", "Cumulative cpu time consumed by the node in core-seconds")
	nodeMemory = desc("node_memory_working_set_bytes", "Current working set of the node in bytes")
	podCPU     = desc("pod_cpu_usage_seconds_total", "Cumulative cpu time consumed by the pod in core-seconds", "pod",
		"namespace")
	podMemory = desc("pod_memory_working_set_bytes", "Current working set of the pod in bytes", "pod", "namespace")
	boxCPU    = desc("container_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the container in core-seconds", "container", "pod", "namespace")
	boxMemory = desc("container_memory_working_set_bytes", "Current working set of the container in bytes",
		"container", "pod", "namespace")
	nodeSwap = desc("node_swap_usage_bytes",
		"Current swap usage of the node in bytes. Reported only on non-windows systems")
	podSwap = desc("pod_swap_usage_bytes",
		"Current amount of the pod swap usage in bytes. Reported only on non-windows systems", "pod", "namespace")
	boxSwap = desc("container_swap_usage_bytes",
		"Current amount of the container swap usage in bytes. Reported only on non-windows systems", "container", "pod",
		"namespace")
	boxSwapLimit = desc("container_swap_limit_bytes",
		"Current amount of the container swap limit in bytes. Reported only on non-windows systems", "container", "pod",
		"namespace")
	boxStart = desc("container_start_time_seconds", "Start time of the container since unix epoch in seconds",
		"container", "pod", "namespace")
	scrapeFailed = desc("resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise")
)

// Describe sends nothing: which metrics there are depends on the pods.
func (r resources) Describe(chan<- *prometheus.Desc) {}

// Collect sends all metrics. If the statistics could not be read, it sends only that.
func (r resources) Collect(out chan<- prometheus.Metric) {
	failed := 0.0
	if r.failed {
		failed = 1
	}
	out <- prometheus.MustNewConstMetric(scrapeFailed, prometheus.GaugeValue, failed)
	if r.failed {
		return
	}

	emitCPU(out, nodeCPU, r.all.Node.CPU)
	emitMemory(out, nodeMemory, r.all.Node.Memory)
	emitSwap(out, nodeSwap, r.all.Node.Swap)

	// A pod may be listed twice for a moment, with its old sandbox and its new one. Start times carry no time stamp
	// that would distinguish the two, and two equal series make the whole page fail.
	started := map[[3]string]bool{}
	for _, p := range r.all.Pods {
		labels := []string{p.PodRef.Name, p.PodRef.Namespace}
		emitCPU(out, podCPU, p.CPU, labels...)
		emitMemory(out, podMemory, p.Memory, labels...)
		emitSwap(out, podSwap, p.Swap, labels...)
		for _, c := range p.Containers {
			labels := append([]string{c.Name}, labels...)
			emitCPU(out, boxCPU, c.CPU, labels...)
			emitMemory(out, boxMemory, c.Memory, labels...)
			emitSwap(out, boxSwap, c.Swap, labels...)
			emitSwap(out, boxSwapLimit, swapLimit(c.Swap), labels...)
			series := [3]string{c.Name, p.PodRef.Name, p.PodRef.Namespace}
			if !c.StartTime.IsZero() && !started[series] {
				started[series] = true
				start := float64(c.StartTime.UnixNano()) / 1e9
				out <- prometheus.MustNewConstMetric(boxStart, prometheus.GaugeValue, start, labels...)
			}
		}
	}
}

// The emit functions send nothing for what is not known. Values carry the time at which they were
// measured.
func emitCPU(out chan<- prometheus.Metric, d *prometheus.Desc, c *statsapi.CPUStats, labels ...string) {
	if c != nil && c.UsageCoreNanoSeconds != nil {
		metric := prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(*c.UsageCoreNanoSeconds)/1e9,
			labels...)
		out <- prometheus.NewMetricWithTimestamp(c.Time.Time, metric)
	}
}

func emitSwap(out chan<- prometheus.Metric, d *prometheus.Desc, s *statsapi.SwapStats, labels ...string) {
	if s != nil && s.SwapUsageBytes != nil {
		metric := prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(*s.SwapUsageBytes), labels...)
		out <- prometheus.NewMetricWithTimestamp(s.Time.Time, metric)
	}
}

// swapLimit is the sum of what is used and what is left; nil if either is not known.
func swapLimit(s *statsapi.SwapStats) *statsapi.SwapStats {
	if s == nil || s.SwapUsageBytes == nil || s.SwapAvailableBytes == nil {
		return nil
	}
	return &statsapi.SwapStats{Time: s.Time, SwapUsageBytes: number(*s.SwapUsageBytes + *s.SwapAvailableBytes)}
}

func emitMemory(out chan<- prometheus.Metric, d *prometheus.Desc, m *statsapi.MemoryStats, labels ...string) {
	if m != nil && m.WorkingSetBytes != nil {
		metric := prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(*m.WorkingSetBytes), labels...)
		out <- prometheus.NewMetricWithTimestamp(m.Time.Time, metric)
	}
}

package serve

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// The series of /metrics/cadvisor that can be made of what the runtime reports, by cAdvisor's names. Container "" is the
// pod as a whole, as there.
var (
	cadvisorCPU     = desc("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", "container", "pod", "namespace")
	cadvisorWorking = desc("container_memory_working_set_bytes", "Current working set in bytes.", "container", "pod", "namespace")
	cadvisorUsage   = desc("container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it was accessed", "container", "pod", "namespace")
	cadvisorRSS     = desc("container_memory_rss", "Size of RSS in bytes.", "container", "pod", "namespace")
	cadvisorFs      = desc("container_fs_usage_bytes", "Number of bytes that are consumed by the container on this filesystem.", "container", "pod", "namespace")
	cadvisorStart   = desc("container_start_time_seconds", "Start time of the container since unix epoch in seconds.", "container", "pod", "namespace")
	cadvisorRx      = desc("container_network_receive_bytes_total", "Cumulative count of bytes received", "interface", "pod", "namespace")
	cadvisorTx      = desc("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", "interface", "pod", "namespace")
	cadvisorFailed  = desc("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise")
)

func (s *Server) containerMetrics(w http.ResponseWriter, r *http.Request) {
	all, err := s.stats.get(r.Context())
	registry := prometheus.NewRegistry()
	registry.MustRegister(containers{all: all, failed: err != nil})
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// containers turns statistics into cAdvisor's metrics.
type containers struct {
	all    *statsapi.Summary
	failed bool
}

// Describe tells nothing: what there is depends on the pods.
func (c containers) Describe(chan<- *prometheus.Desc) {}

// Collect sends what is known.
func (c containers) Collect(out chan<- prometheus.Metric) {
	if c.failed {
		out <- prometheus.MustNewConstMetric(cadvisorFailed, prometheus.GaugeValue, 1)
		return
	}
	out <- prometheus.MustNewConstMetric(cadvisorFailed, prometheus.GaugeValue, 0)
	send := func(d *prometheus.Desc, kind prometheus.ValueType, n *uint64, per float64, labels ...string) {
		if n != nil {
			out <- prometheus.MustNewConstMetric(d, kind, float64(*n)/per, labels...)
		}
	}
	usage := func(cpu *statsapi.CPUStats, mem *statsapi.MemoryStats, labels ...string) {
		if cpu != nil {
			send(cadvisorCPU, prometheus.CounterValue, cpu.UsageCoreNanoSeconds, 1e9, labels...)
		}
		if mem != nil {
			send(cadvisorWorking, prometheus.GaugeValue, mem.WorkingSetBytes, 1, labels...)
			send(cadvisorUsage, prometheus.GaugeValue, mem.UsageBytes, 1, labels...)
			send(cadvisorRSS, prometheus.GaugeValue, mem.RSSBytes, 1, labels...)
		}
	}
	for _, p := range c.all.Pods {
		pod := []string{p.PodRef.Name, p.PodRef.Namespace}
		usage(p.CPU, p.Memory, append([]string{""}, pod...)...)
		if p.Network != nil {
			send(cadvisorRx, prometheus.CounterValue, p.Network.RxBytes, 1, append([]string{p.Network.Name}, pod...)...)
			send(cadvisorTx, prometheus.CounterValue, p.Network.TxBytes, 1, append([]string{p.Network.Name}, pod...)...)
		}
		for _, one := range p.Containers {
			labels := append([]string{one.Name}, pod...)
			usage(one.CPU, one.Memory, labels...)
			if one.Rootfs != nil {
				send(cadvisorFs, prometheus.GaugeValue, one.Rootfs.UsedBytes, 1, labels...)
			}
			if !one.StartTime.IsZero() {
				out <- prometheus.MustNewConstMetric(cadvisorStart, prometheus.GaugeValue, float64(one.StartTime.Unix()), labels...)
			}
		}
	}
}

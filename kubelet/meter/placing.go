package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
)

// placing counts what pods get of the node in pieces: devices, processors, memory of NUMA nodes.
type placing struct {
	admissions, refusals prometheus.Counter
	took                 prometheus.Histogram
	registrations        *prometheus.CounterVec
	allocations          *prometheus.HistogramVec
	asked                *prometheus.CounterVec // the pod-resources API, by version
	calls                map[string]*prometheus.CounterVec

	shutdownBegan, shutdownEnded       prometheus.Gauge
	userNamespaced, userNamespacedErrs prometheus.Counter
}

func newPlacing() placing {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Subsystem: "kubelet", Name: name, Help: help})
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet", Name: name, Help: help},
			[]string{label})
	}
	p := placing{
		admissions: counter("topology_manager_admission_requests_total",
			"Pods that asked for devices, processors and memory."),
		refusals: counter("topology_manager_admission_errors_total", "Pods that could not have the devices, processors and memory they asked for."),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: "kubelet",
			Name:    "topology_manager_admission_duration_ms",
			Help:    "How long it took to give a pod devices, processors and memory, in milliseconds.",
			Buckets: prometheus.ExponentialBuckets(.05, 2, 15)}),
		registrations: vector("device_plugin_registration_total", "Registrations of device plugins, by resource.",
			"resource_name"),
		allocations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet",
			Name: "device_plugin_alloc_duration_seconds",
			Help: "How long calls of Allocate took, by resource.", Buckets: prometheus.DefBuckets},
			[]string{"resource_name"}),
		asked: vector("pod_resources_endpoint_requests_total", "Questions to the pod-resources API.",
			"server_api_version"),
		calls: map[string]*prometheus.CounterVec{},
		userNamespaced: counter("started_user_namespaced_pods_total",
			"Sandboxes with a user namespace of their own that were to be created."),
		userNamespacedErrs: counter("started_user_namespaced_pods_errors_total", "Sandboxes with a user namespace that could not be created."),
		shutdownBegan: prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: "kubelet",
			Name: "graceful_shutdown_start_time_seconds",
			Help: "When the last graceful shutdown began, in seconds since 1970."}),
		shutdownEnded: prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: "kubelet",
			Name: "graceful_shutdown_end_time_seconds",
			Help: "When the last graceful shutdown ended, in seconds since 1970."}),
	}

	for _, name := range []string{"requests_list", "requests_get", "requests_get_allocatable", "errors_get"} {
		p.calls[name] = vector("pod_resources_endpoint_"+name,
			"Questions to the pod-resources API of one kind, or those without an answer.", "server_api_version")
	}
	return p
}

func (p *placing) register(r *prometheus.Registry) {
	r.MustRegister(p.admissions, p.refusals, p.took, p.registrations, p.allocations, p.asked, p.shutdownBegan,
		p.shutdownEnded, p.userNamespaced, p.userNamespacedErrs)
	for _, c := range p.calls {
		r.MustRegister(c)
	}
}

// Placed counts a pod that asked for devices, processors and memory.
func (m *Meter) Placed(took time.Duration, refused bool) {
	if m == nil {
		return
	}
	m.placing.admissions.Inc()
	if refused {
		m.placing.refusals.Inc()
	}
	m.placing.took.Observe(float64(took) / float64(time.Millisecond))
}

// DevicePlugin counts the registration of a device plugin.
func (m *Meter) DevicePlugin(resource string) {
	if m != nil {
		m.placing.registrations.WithLabelValues(resource).Inc()
	}
}

// DevicesAllocated counts a call of a device plugin.
func (m *Meter) DevicesAllocated(resource string, took time.Duration) {
	if m != nil {
		m.placing.allocations.WithLabelValues(resource).Observe(took.Seconds())
	}
}

// PodResources counts a question to the pod-resources API v1: list, get or get_allocatable. The older version of the
// API, v1alpha1, has one kind only: its name is the call.
func (m *Meter) PodResources(call string, failed bool) {
	if m == nil {
		return
	}
	if call == "v1alpha1" {
		m.placing.asked.WithLabelValues(call).Inc()
		return
	}
	m.placing.asked.WithLabelValues("v1").Inc()
	m.placing.calls["requests_"+call].WithLabelValues("v1").Inc()
	if c := m.placing.calls["errors_"+call]; failed && c != nil {
		c.WithLabelValues("v1").Inc()
	}
}

// UserNamespaced counts the start of a pod's sandbox, if the pod has a user namespace of its own.
func (m *Meter) UserNamespaced(p *v1.Pod, err error) {
	if m == nil || p.Spec.HostUsers == nil || *p.Spec.HostUsers {
		return
	}
	m.placing.userNamespaced.Inc()
	if err != nil {
		m.placing.userNamespacedErrs.Inc()
	}
}

// ShutDown shows when the last graceful shutdown of the machine began and ended; the zero time for one that did not.
func (m *Meter) ShutDown(began, ended time.Time) {
	if m == nil {
		return
	}
	set := func(g prometheus.Gauge, t time.Time) {
		g.Set(0)
		if !t.IsZero() {
			g.Set(float64(t.Unix()))
		}
	}
	set(m.placing.shutdownBegan, began)
	set(m.placing.shutdownEnded, ended)
}

// Pinned is what CountPinned shows: how often processors or memory were asked for and could not be had, how many
// processors somebody has alone, also by NUMA node, and how many could be had.
type Pinned struct {
	CPURequests, CPUErrors, MemoryRequests, MemoryErrors uint64
	Alone, Free                                          int
}

// CountPinned adds the figures of processors and memory that belong to one container. count is called for each scrape.
// Call it once.
func (m *Meter) CountPinned(count func() Pinned) { m.Registry.MustRegister(pinned{count}) }

// pinned calls count for each scrape.
type pinned struct{ count func() Pinned }

// pinnedFigure is one figure of Pinned.
type pinnedFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(Pinned) float64
}

func newPinnedFigure(name, help string, kind prometheus.ValueType, value func(Pinned) float64) pinnedFigure {
	return pinnedFigure{prometheus.NewDesc("kubelet_"+name, help, nil, nil), kind, value}
}

var pinnedFigures = []pinnedFigure{
	newPinnedFigure("cpu_manager_pinning_requests_total", "Containers that asked for processors of their own.",
		prometheus.CounterValue, func(p Pinned) float64 { return float64(p.CPURequests) }),
	newPinnedFigure("cpu_manager_pinning_errors_total", "Containers that could not have processors of their own.",
		prometheus.CounterValue, func(p Pinned) float64 { return float64(p.CPUErrors) }),
	newPinnedFigure("cpu_manager_shared_pool_size_millicores", "Processors that could still be had, in thousandths.",
		prometheus.GaugeValue, func(p Pinned) float64 { return float64(p.Free) * 1000 }),
	newPinnedFigure("cpu_manager_exclusive_cpu_allocation_count", "Processors that somebody has alone.",
		prometheus.GaugeValue, func(p Pinned) float64 { return float64(p.Alone) }),
	newPinnedFigure("memory_manager_pinning_requests_total", "Containers that asked for memory of their own.",
		prometheus.CounterValue, func(p Pinned) float64 { return float64(p.MemoryRequests) }),
	newPinnedFigure("memory_manager_pinning_errors_total", "Containers that could not have memory of their own.",
		prometheus.CounterValue, func(p Pinned) float64 { return float64(p.MemoryErrors) }),
}

func (pinned) Describe(out chan<- *prometheus.Desc) {
	for _, f := range pinnedFigures {
		out <- f.desc
	}
}

func (p pinned) Collect(out chan<- prometheus.Metric) {
	now := p.count()
	for _, f := range pinnedFigures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(now))
	}
}

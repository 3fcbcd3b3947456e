// Package meter has the kubelet's metrics, with the names, labels and buckets of upstream's kubelet, so that existing
// dashboards and tests can read them. A nil Meter counts nothing.
package meter

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc/stats"
	v1 "k8s.io/api/core/v1"
)

// Options configure a Meter.
type Options struct {
	NodeName string
	// Boot is when the machine started; zero if that is not known.
	Boot time.Time
}

// Meter holds the metrics of one kubelet.
type Meter struct {
	// Registry is served at /metrics, and Probes at /metrics/probes.
	Registry, Probes *prometheus.Registry

	operations, operationErrors, containers, containerErrors, hostProcess, hostProcessErrors *prometheus.CounterVec
	pods, podErrors                                                                          prometheus.Counter
	operationTime, workerTime                                                                *prometheus.HistogramVec
	podStart, podSLI, podTotal, workerStart                                                  prometheus.Histogram
	probes                                                                                   *prometheus.CounterVec
	probeTime                                                                                *prometheus.HistogramVec
	evictions, preemptions                                                                   *prometheus.CounterVec
	evictionAge                                                                              *prometheus.HistogramVec
	placing                                                                                  placing
	claims                                                                                   claims
	storage                                                                                  storage
	parts                                                                                    parts
}

// parts are the metrics that have methods of their own.
type parts struct {
	life    *Life
	start   *Start
	images  *Images
	resizes *Resizes
}

// Life returns the counts of what becomes of pods; nil, which counts nothing, of a nil Meter. So do the next ones.
func (m *Meter) Life() *Life { return m.of().life }

// Start returns the times of the node's start.
func (m *Meter) Start() *Start { return m.of().start }

// Images returns the counts of images.
func (m *Meter) Images() *Images { return m.of().images }

// Resizes returns the counts of changes of pods' resources.
func (m *Meter) Resizes() *Resizes { return m.of().resizes }

func (m *Meter) of() parts {
	if m == nil {
		return parts{}
	}
	return m.parts
}

// startBuckets are upstream's for the start of a pod, in seconds.
var startBuckets = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200,
	1800, 2700, 3600}

// New returns a Meter with its own registries.
func New(o Options) *Meter {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: "kubelet", Name: name, Help: help,
			Buckets: buckets})
	}

	m := &Meter{Registry: prometheus.NewRegistry(), Probes: prometheus.NewRegistry(),
		operations: counter("runtime_operations_total", "Calls of the runtime by operation.", "operation_type"),
		operationErrors: counter("runtime_operations_errors_total", "Calls of the runtime that failed, by operation.",
			"operation_type"),
		containers: counter("started_containers_total", "Containers started.", "container_type"),
		containerErrors: counter("started_containers_errors_total",
			"Containers that could not be started, by reason.", "container_type", "code"),
		hostProcess: counter("started_host_process_containers_total",
			"HostProcess containers that were to be started (Windows).", "container_type"),
		hostProcessErrors: counter("started_host_process_containers_errors_total",
			"HostProcess containers that could not be started (Windows).", "container_type", "code"),
		pods: prometheus.NewCounter(prometheus.CounterOpts{Subsystem: "kubelet",
			Name: "started_pods_total", Help: "Sandboxes that were to be created."}),
		podErrors: prometheus.NewCounter(prometheus.CounterOpts{Subsystem: "kubelet",
			Name: "started_pods_errors_total", Help: "Sandboxes that could not be created."}),
		operationTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet",
			Name:    "runtime_operations_duration_seconds",
			Help:    "How long calls of the runtime took, by operation.",
			Buckets: prometheus.ExponentialBuckets(.005, 2.5, 14)}, []string{"operation_type"}),
		workerTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet",
			Name: "pod_worker_duration_seconds",
			Help: "How long one look at a pod took, by what it was for.", Buckets: prometheus.DefBuckets},
			[]string{"operation_type"}),
		evictions: counter("evictions", "Pods that were evicted, by the signal that led to it.", "eviction_signal"),
		preemptions: counter("preemptions",
			"Pods that ended to make room for critical ones, by the first resource that was short.",
			"preemption_signal"),
		evictionAge: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet",
			Name:    "eviction_stats_age_seconds",
			Help:    "How old the figures were because of which a pod was evicted, by signal.",
			Buckets: prometheus.DefBuckets}, []string{"eviction_signal"}),
		podStart: histogram("pod_start_duration_seconds", "From the first sight of a pod until it runs.",
			startBuckets),
		podSLI: histogram("pod_start_sli_duration_seconds",
			"From the creation of a pod until it runs, for pods that needed no image and have no init containers.",
			startBuckets),
		podTotal: histogram("pod_start_total_duration_seconds", "From the creation of a pod until it runs.",
			startBuckets),
		workerStart: histogram("pod_worker_start_duration_seconds",
			"From the first sight of a pod until its worker began.", prometheus.DefBuckets),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "prober", Name: "probe_total",
			Help: "Probes by result."},
			[]string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}),
		storage: newStorage(), placing: newPlacing(), claims: newClaims(),
		parts: parts{newLife(), newStart(o.Boot), newImages(), newResizes()},
		probeTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "prober",
			Name: "probe_duration_seconds", Help: "How long probes took."},
			[]string{"probe_type", "container", "pod", "namespace"}),
	}

	node := prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: "kubelet", Name: "node_name",
		Help:        "The node's name. The value is always 1.",
		ConstLabels: prometheus.Labels{"node": o.NodeName}})
	node.Set(1)

	m.Registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), node,
		m.operations, m.operationErrors, m.operationTime, m.containers, m.containerErrors, m.hostProcess,
		m.hostProcessErrors, m.pods, m.podErrors,
		m.workerTime, m.podStart, m.podSLI, m.podTotal, m.workerStart, m.evictions, m.evictionAge, m.preemptions,
		m.storage.calls,
		m.storage.operations, m.storage.overall, m.claims.operations, m.claims.calls, newProvider())
	m.placing.register(m.Registry)
	m.parts.life.register(m.Registry)
	m.parts.start.register(m.Registry)
	m.parts.images.register(m.Registry)
	m.parts.resizes.register(m.Registry)
	m.Probes.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m.probes, m.probeTime)
	return m
}

// newProvider returns the metric by which upstream says where it has the figures of containers from.
func newProvider() prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: "kubelet", Name: "metrics_provider",
		Help:        "Where the figures of containers come from. The value is always 1.",
		ConstLabels: prometheus.Labels{"provider": "cri"}})
	g.Set(1)
	return g
}

// CountRunning adds the numbers of pods with a running sandbox, and of containers by state (created, running, exited).
// count is called for each scrape. Call it once.
func (m *Meter) CountRunning(count func() (pods int, containers map[string]int)) {
	m.Registry.MustRegister(running{count})
}

// running calls count for each scrape.
type running struct {
	count func() (int, map[string]int)
}

var (
	runningPods       = prometheus.NewDesc("kubelet_running_pods", "Pods with a running sandbox.", nil, nil)
	runningContainers = prometheus.NewDesc("kubelet_running_containers", "Containers by state.",
		[]string{"container_state"}, nil)
)

// Describe sends the two series.
func (r running) Describe(out chan<- *prometheus.Desc) { out <- runningPods; out <- runningContainers }

// Collect sends the current numbers.
func (r running) Collect(out chan<- prometheus.Metric) {
	pods, containers := r.count()
	out <- prometheus.MustNewConstMetric(runningPods, prometheus.GaugeValue, float64(pods))
	for state, n := range containers {
		out <- prometheus.MustNewConstMetric(runningContainers, prometheus.GaugeValue, float64(n), state)
	}
}

// Calls counts the calls of a connection to the runtime under upstream's names. It is a stats.Handler of gRPC.
type Calls struct{ Meter *Meter }

type callKey struct{}

// call is what is known of a call that is under way. handler is the runtime's handler of a sandbox that is to be made.
type call struct{ method, handler string }

// TagRPC keeps the method's name for HandleRPC.
func (Calls) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, callKey{}, &call{method: info.FullMethodName})
}

// HandleRPC counts a call that ended.
func (c Calls) HandleRPC(ctx context.Context, event stats.RPCStats) {
	made, known := ctx.Value(callKey{}).(*call)
	if c.Meter == nil || !known {
		return
	}
	if out, ok := event.(*stats.OutPayload); ok {
		if request, ok := out.Payload.(interface{ GetRuntimeHandler() string }); ok {
			made.handler = request.GetRuntimeHandler()
		}
		return
	}
	end, ok := event.(*stats.End)
	if !ok {
		return
	}

	name, took := Operation(made.method), end.EndTime.Sub(end.BeginTime)
	c.Meter.operations.WithLabelValues(name).Inc()
	c.Meter.operationTime.WithLabelValues(name).Observe(took.Seconds())
	if end.Error != nil {
		c.Meter.operationErrors.WithLabelValues(name).Inc()
	}
	if name == "run_podsandbox" {
		c.Meter.parts.life.sandbox(made.handler, took, end.Error)
	}
}

// TagConn does nothing.
func (Calls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (Calls) HandleConn(context.Context, stats.ConnStats) {}

// Operation returns upstream's name of a CRI method: /runtime.v1.RuntimeService/RunPodSandbox is run_podsandbox.
func Operation(method string) string {
	name := method[strings.LastIndexByte(method, '/')+1:]
	name = strings.ReplaceAll(name, "PodSandbox", "Podsandbox")
	switch name {
	case "UpdateContainerResources":
		return "update_container"
	case "ImageFsInfo":
		return "image_fs_info"
	}
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}

// Sandbox counts the creation of a sandbox; err is nil if it succeeded.
func (m *Meter) Sandbox(err error) {
	if m == nil {
		return
	}
	m.pods.Inc()
	if err != nil {
		m.podErrors.Inc()
	}
}

// Container counts the start of a container. code is the reason if it could not be started, or "".
func (m *Meter) Container(pod *v1.Pod, name, code string, hostProcess bool) {
	if m == nil {
		return
	}
	kind := containerType(pod, name)
	m.containers.WithLabelValues(kind).Inc()
	if hostProcess {
		m.hostProcess.WithLabelValues(kind).Inc()
	}

	if code == "" {
		return
	}
	m.containerErrors.WithLabelValues(kind, code).Inc()
	if hostProcess {
		m.hostProcessErrors.WithLabelValues(kind, code).Inc()
	}
}

func containerType(pod *v1.Pod, name string) string {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == name {
			return "init_container"
		}
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if c.Name == name {
			return "ephemeral_container"
		}
	}
	return "container"
}

// Running records that a pod runs for the first time. seen is when the kubelet learned of it. pulled means that an
// image had to be pulled.
func (m *Meter) Running(pod *v1.Pod, seen, now time.Time, pulled bool) {
	if m == nil {
		return
	}
	m.podStart.Observe(now.Sub(seen).Seconds())
	if created := pod.CreationTimestamp; !created.IsZero() {
		took := max(now.Sub(created.Time), 0).Seconds()
		m.podTotal.Observe(took)
		if !pulled && len(pod.Spec.InitContainers) == 0 {
			m.podSLI.Observe(took)
			m.parts.life.firstNetwork(pod, max(now.Sub(created.Time), 0))
		}
	}
}

// Worker records one pass over a pod. create marks the first pass, for which waited is the time until it began.
func (m *Meter) Worker(create bool, took, waited time.Duration) {
	if m == nil {
		return
	}
	if !create {
		m.workerTime.WithLabelValues("sync").Observe(took.Seconds())
		return
	}
	m.workerTime.WithLabelValues("create").Observe(took.Seconds())
	m.workerStart.Observe(waited.Seconds())
}

// Evicted counts a pod that was evicted because of a signal whose figure was so old. Limits of the pod's own have no
// age: it is negative.
func (m *Meter) Evicted(signal string, age time.Duration) {
	if m == nil {
		return
	}
	m.evictions.WithLabelValues(signal).Inc()
	if age >= 0 {
		m.evictionAge.WithLabelValues(signal).Observe(age.Seconds())
	}
}

// Preempted counts a pod that ended to make room for a critical one, which lacked this resource.
func (m *Meter) Preempted(resource string) {
	if m != nil {
		m.preemptions.WithLabelValues(resource).Inc()
	}
}

// Probe counts one probe. kind is Liveness, Readiness or Startup; result is successful, failed or unknown.
func (m *Meter) Probe(pod *v1.Pod, container, kind, result string, took time.Duration) {
	if m == nil {
		return
	}
	m.probes.WithLabelValues(kind, result, container, pod.Name, pod.Namespace, string(pod.UID)).Inc()
	m.probeTime.WithLabelValues(kind, container, pod.Name, pod.Namespace).Observe(took.Seconds())
}

// Forget removes the series of a pod that is gone.
func (m *Meter) Forget(pod *v1.Pod) {
	if m == nil || pod == nil {
		return
	}
	m.probes.DeletePartialMatch(prometheus.Labels{"pod_uid": string(pod.UID)})
	m.probeTime.DeletePartialMatch(prometheus.Labels{"pod": pod.Name, "namespace": pod.Namespace})
}

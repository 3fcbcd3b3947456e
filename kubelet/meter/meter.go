// Package meter has the kubelet's metrics, with the names, labels and buckets of upstream's kubelet, so that existing
// dashboards and tests can read them. A nil Meter counts nothing.
package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
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

	calls     calls
	started   started
	podTimes  podTimes
	evictions evictions
	probes    probes
	placing   placing
	claims    claims
	storage   storage
	parts     parts
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

// of lets a nil Meter count nothing: its parts are nil too.
func (m *Meter) of() parts {
	if m == nil {
		return parts{}
	}
	return m.parts
}

// New returns a Meter with its own registries.
func New(o Options) *Meter {
	m := &Meter{Registry: prometheus.NewRegistry(), Probes: prometheus.NewRegistry(), storage: newStorage(),
		placing: newPlacing(), claims: newClaims(),
		parts: parts{newLife(), newStart(o.Boot), newImages(), newResizes()}}
	registry := promauto.With(m.Registry)
	probing := promauto.With(m.Probes)
	m.calls = newCalls(registry)
	m.started = newStarted(registry)
	m.podTimes = newPodTimes(registry)
	m.evictions = newEvictions(registry)
	m.probes = newProbes(probing)

	registry.NewGauge(prometheus.GaugeOpts{Subsystem: "kubelet", Name: "node_name",
		Help: "The node's name. The value is always 1.", ConstLabels: prometheus.Labels{"node": o.NodeName}}).Set(1)
	// as upstream says where it has the figures of containers from
	registry.NewGauge(prometheus.GaugeOpts{Subsystem: "kubelet", Name: "metrics_provider",
		Help:        "Where the figures of containers come from. The value is always 1.",
		ConstLabels: prometheus.Labels{"provider": "cri"}}).Set(1)

	m.Registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m.storage.calls, m.storage.operations,
		m.storage.overall, m.claims.operations, m.claims.calls)
	m.placing.register(m.Registry)
	m.parts.life.register(m.Registry)
	m.parts.start.register(m.Registry)
	m.parts.images.register(m.Registry)
	m.parts.resizes.register(m.Registry)
	m.Probes.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// counterVec makes a metric of the kubelet, and registers it.
func counterVec(to promauto.Factory, name, help string, labels ...string) *prometheus.CounterVec {
	return to.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet", Name: name, Help: help}, labels)
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

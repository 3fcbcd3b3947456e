package health

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"porthole.dev/porthole/proxy/service"
)

// Traffic policies, as upstream labels kubeproxy_sync_proxy_rules_no_local_endpoints_total.
const (
	policyInternal = "internal"
	policyExternal = "external"
)

// metrics are all metrics of a proxy.
type metrics struct {
	registry *prometheus.Registry
	families []string

	upstreamMetrics
	ownMetrics
	reasons map[string]bool // those that have a problems gauge
}

// upstreamMetrics have upstream's names, labels and buckets (kubernetes v1.36 pkg/proxy/metrics).
type upstreamMetrics struct {
	duration, full, partial, network *prometheus.HistogramVec
	lastSync, lastQueued             *prometheus.GaugeVec
	noLocal                          *prometheus.GaugeVec
	healthz, livez                   *prometheus.CounterVec
	slicesPending, servicesPending   prometheus.Gauge
	slicesTotal, servicesTotal       prometheus.Counter
}

// ownMetrics are those that only this proxy has; their names begin with porthole_.
type ownMetrics struct {
	states, problems           *prometheus.GaugeVec
	wanted, failed, leftOut    prometheus.Gauge
	writes, passes, incomplete prometheus.Counter
	latency                    prometheus.Histogram
	repaired                   *prometheus.CounterVec
	calls                      *prometheus.CounterVec
	callTime                   *prometheus.HistogramVec
}

// networkBuckets are upstream's for the latency of network programming: 0.25 s to 5 min.
func networkBuckets() []float64 {
	return slices.Concat(prometheus.LinearBuckets(0.25, 0.25, 2), prometheus.LinearBuckets(1, 1, 59),
		prometheus.LinearBuckets(60, 5, 12), prometheus.LinearBuckets(120, 30, 7))
}

// newMetrics makes all metrics, in a registry of their own. families are the values of the label ip_family: one pass
// serves all families, so each pass counts for each of them.
func newMetrics(families []string) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), families: families, reasons: map[string]bool{}}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registerUpstream()
	m.registerOwn()

	for _, state := range []State{Programmed, Pending, Failed} {
		m.states.WithLabelValues(string(state)).Set(0)
	}
	for _, family := range families { // present from the start, for alerts on missing metrics
		for _, h := range []*prometheus.HistogramVec{m.duration, m.full, m.partial, m.network} {
			h.WithLabelValues(family)
		}
	}
	return m
}

func (m *metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.registry.MustRegister(g)
	return g
}

func (m *metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(g)
	return g
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}

// registerUpstream makes the metrics that dashboards and alerts for upstream's proxy read.
func (m *metrics) registerUpstream() {
	sync := prometheus.ExponentialBuckets(0.001, 2, 15)
	m.duration = m.histograms("kubeproxy_sync_proxy_rules_duration_seconds", "Duration of one pass.", sync, "ip_family")
	m.full = m.histograms("kubeproxy_sync_full_proxy_rules_duration_seconds",
		"Duration of one pass with a listing of the host.", sync, "ip_family")
	m.partial = m.histograms("kubeproxy_sync_partial_proxy_rules_duration_seconds",
		"Duration of one pass over what changed.", sync, "ip_family")
	m.network = m.histograms("kubeproxy_network_programming_duration_seconds",
		"From the change of a pod or service to the host's data plane.", networkBuckets(), "ip_family")
	m.lastSync = m.gauges("kubeproxy_sync_proxy_rules_last_timestamp_seconds",
		"When the last pass ended that could observe the host.", "ip_family")
	m.lastQueued = m.gauges("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
		"When a change last asked for a pass.", "ip_family")
	m.noLocal = m.gauges("kubeproxy_sync_proxy_rules_no_local_endpoints_total",
		"Services with a traffic policy Local and no endpoint on this node.", "traffic_policy", "ip_family")
	m.healthz = m.counters("kubeproxy_proxy_healthz_total", "Answers of /healthz by code.", "code")
	m.livez = m.counters("kubeproxy_proxy_livez_total", "Answers of /livez by code.", "code")
	m.slicesPending = m.gauge("kubeproxy_sync_proxy_rules_endpoint_changes_pending",
		"Changes of endpoints that no pass has taken yet.")
	m.slicesTotal = m.counter("kubeproxy_sync_proxy_rules_endpoint_changes_total", "Changes of endpoints seen.")
	m.servicesPending = m.gauge("kubeproxy_sync_proxy_rules_service_changes_pending",
		"Changes of services that no pass has taken yet.")
	m.servicesTotal = m.counter("kubeproxy_sync_proxy_rules_service_changes_total", "Changes of services seen.")
}

// registerOwn makes the metrics that upstream's proxy does not have. Renaming one breaks users' alerts.
func (m *metrics) registerOwn() {
	m.states = m.gauges("porthole_proxy_services", "Services by state.", "state")
	m.problems = m.gauges("porthole_proxy_problems", "What cannot be served as the services are written, by reason.",
		"reason")
	m.wanted = m.gauge("porthole_proxy_frontends_wanted", "Frontends with backends.")
	m.failed = m.gauge("porthole_proxy_frontends_failed", "Frontends that are not served as wanted.")
	m.leftOut = m.gauge("porthole_proxy_backends_left_out",
		"Backends beyond the number that a frontend can have, over all frontends.")
	m.passes = m.counter("porthole_proxy_passes_total", "Passes.")
	m.incomplete = m.counter("porthole_proxy_passes_blind_total",
		"Passes that could not observe the host and so changed nothing.")
	m.writes = m.counter("porthole_proxy_writes_total", "Operations that changed the host.")
	m.repaired = m.counters("porthole_proxy_repaired_total",
		"Objects that a full check found lost or altered by others.", "kind")
	m.latency = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "porthole_proxy_programming_latency_seconds",
		Help:    "From the change that an EndpointSlice tells of to the host's data plane.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 16),
	})
	m.registry.MustRegister(m.latency)
	m.calls = m.counters("porthole_hns_calls_total", "Calls to HNS by kind and result.", "call", "result")
	m.callTime = m.histograms("porthole_hns_call_duration_seconds", "Duration of calls to HNS by kind.",
		prometheus.ExponentialBuckets(0.0005, 4, 10), "call")
}

// pass counts one pass. A pass that could not observe the host counts too, but leaves the time of the last sync as it
// was, so that an alert on its age sees that nothing is kept up to date.
func (m *metrics) pass(p Pass, now time.Time) {
	part := m.partial
	if p.Full {
		part = m.full
	}
	for _, family := range m.families {
		m.duration.WithLabelValues(family).Observe(p.Took.Seconds())
		part.WithLabelValues(family).Observe(p.Took.Seconds())
		if p.Err == nil {
			m.lastSync.WithLabelValues(family).Set(seconds(now))
		}
	}
	m.passes.Inc()
	if p.Err != nil {
		m.incomplete.Inc()
	}
	m.wanted.Set(float64(p.Wanted))
	m.failed.Set(float64(p.Failed))
	m.writes.Add(float64(p.Writes))
}

func (m *metrics) programmed(took time.Duration) {
	m.latency.Observe(took.Seconds())
	for _, family := range m.families {
		m.network.WithLabelValues(family).Observe(took.Seconds())
	}
}

// services sets the gauges of services by state and of problems by reason. A reason that no service has any more loses
// its series; otherwise there would be one series at zero for each reason that ever occurred.
func (m *metrics) services(t *table) {
	for _, state := range []State{Programmed, Pending, Failed} {
		m.states.WithLabelValues(string(state)).Set(float64(t.count[state]))
	}
	if len(t.problems) == 0 && len(m.reasons) == 0 {
		return
	}
	for reason := range m.reasons {
		if t.problems[reason] == 0 {
			m.problems.DeleteLabelValues(reason)
			delete(m.reasons, reason)
		}
	}
	for reason, n := range t.problems {
		m.problems.WithLabelValues(reason).Set(float64(n))
		m.reasons[reason] = true
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// ServiceChanged counts a change of a Service that the next pass will take in.
func (s *Server) ServiceChanged() {
	s.metrics.servicesTotal.Inc()
	s.metrics.servicesPending.Inc()
	s.queued()
}

// SliceChanged counts a change of an EndpointSlice that the next pass will take in.
func (s *Server) SliceChanged() {
	s.metrics.slicesTotal.Inc()
	s.metrics.slicesPending.Inc()
	s.queued()
}

func (s *Server) queued() {
	now := seconds(s.options.Now())
	for _, family := range s.options.Families {
		s.metrics.lastQueued.WithLabelValues(family).Set(now)
	}
}

// Taken notes that a pass has taken in these states. It does not keep them.
func (s *Server) Taken(states []service.State) {
	s.metrics.servicesPending.Set(0)
	s.metrics.slicesPending.Set(0)
	s.Alive()
	if len(states) == 0 {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range states {
		internal := false
		external := false
		beyond := 0
		for _, f := range state.Frontends {
			if s.options.MaxBackends > 0 {
				beyond += max(0, len(f.Backends)-s.options.MaxBackends)
			}
			if f.LocalOnly && len(f.Backends) == 0 {
				internal = internal || f.Kind == service.ClusterIP
				external = external || f.Kind != service.ClusterIP
			}
		}

		mark(s.lacking[policyInternal], state.Service, internal)
		mark(s.lacking[policyExternal], state.Service, external)
		s.omitted += beyond - s.leftOut[state.Service]
		if s.leftOut[state.Service] = beyond; beyond == 0 {
			delete(s.leftOut, state.Service)
		}
	}

	s.metrics.leftOut.Set(float64(s.omitted))
	for policy, names := range s.lacking {
		for _, family := range s.options.Families {
			s.metrics.noLocal.WithLabelValues(policy, family).Set(float64(len(names)))
		}
	}
}

// mark puts a name into a set or takes it out.
func mark(set map[string]bool, name string, in bool) {
	if in {
		set[name] = true
	} else {
		delete(set, name)
	}
}

// Registry returns where further collectors can be registered, for example the API client's.
func (s *Server) Registry() prometheus.Registerer { return s.metrics.registry }

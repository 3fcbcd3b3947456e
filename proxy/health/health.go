// Package health says how the service proxy fares: /healthz, /livez, /readyz, metrics under upstream's names, and a
// report of every service that is not served as wanted. Healthy means programmed: a proxy that runs and cannot set up a
// service is not healthy, and says which service it is.
package health

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Report is the outcome of one pass of a proxy.
type Report struct {
	At time.Time `json:"at"`
	// Took is how long the pass lasted.
	Took time.Duration `json:"took"`
	// Observed is when the host was last listed; Ready says that one pass was complete.
	Observed time.Time `json:"observed"`
	Ready    bool      `json:"ready"`
	// Error says why the host could not be observed; "" when it could.
	Error string `json:"error,omitempty"`
	// Wanted counts frontends with backends, Programmed those that are served as wanted.
	Wanted     int       `json:"wanted"`
	Programmed int       `json:"programmed"`
	Failed     []Failure `json:"failed,omitempty"`
	// Unserved are services that this host can never serve as written (SCTP, a frontend taken twice).
	Unserved []Failure `json:"unserved,omitempty"`
}

// Failure is one frontend and why it is not right.
type Failure struct {
	Service  string    `json:"service"`
	Frontend string    `json:"frontend,omitempty"`
	Reason   string    `json:"reason"`
	Since    time.Time `json:"since,omitzero"`
}

// Sort puts failures in a stable order.
func (r *Report) Sort() {
	for _, list := range [][]Failure{r.Failed, r.Unserved} {
		slices.SortFunc(list, func(a, b Failure) int {
			return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Frontend, b.Frontend), cmp.Compare(a.Reason, b.Reason))
		})
	}
}

// Limits of health: a failure that is younger than this is still being retried.
const (
	failureLimit = 60 * time.Second
	observeLimit = 2 * time.Minute
	liveLimit    = 5 * time.Minute
)

// Server answers health and metrics requests. It may be used from many goroutines.
type Server struct {
	mu      sync.Mutex
	last    Report
	started time.Time
	now     func() time.Time

	registry *prometheus.Registry
	duration prometheus.Histogram
	lastSync prometheus.Gauge
	queued   prometheus.Gauge
	wanted   prometheus.Gauge
	failed   prometheus.Gauge
	healthz  *prometheus.CounterVec
	livez    *prometheus.CounterVec
	calls    *prometheus.CounterVec
	callTime *prometheus.HistogramVec
}

// New makes a server. Now is the clock; nil means time.Now.
func New(now func() time.Time) *Server {
	if now == nil {
		now = time.Now
	}
	s := &Server{started: now(), now: now, registry: prometheus.NewRegistry()}
	s.duration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kubeproxy_sync_proxy_rules_duration_seconds", Help: "Duration of one pass over all services.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	})
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	s.lastSync = gauge("kubeproxy_sync_proxy_rules_last_timestamp_seconds", "Time of the last pass that set up what it could.")
	s.queued = gauge("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", "Time of the last change that asked for a pass.")
	s.wanted = gauge("porthole_proxy_frontends_wanted", "Frontends with backends.")
	s.failed = gauge("porthole_proxy_frontends_failed", "Frontends that are not served as wanted.")
	code := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"code"})
	}
	s.healthz = code("kubeproxy_proxy_healthz_total", "Answers of /healthz by code.")
	s.livez = code("kubeproxy_proxy_livez_total", "Answers of /livez by code.")
	s.calls = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porthole_hns_calls_total", Help: "Calls to HNS by kind and result.",
	}, []string{"call", "result"})
	s.callTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "porthole_hns_call_duration_seconds", Help: "Duration of calls to HNS by kind.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
	}, []string{"call"})
	s.registry.MustRegister(s.duration, s.lastSync, s.queued, s.wanted, s.failed, s.healthz, s.livez, s.calls, s.callTime)
	return s
}

// Update takes the outcome of a pass.
func (s *Server) Update(r Report) {
	s.mu.Lock()
	s.last = r
	s.mu.Unlock()
	s.duration.Observe(r.Took.Seconds())
	s.wanted.Set(float64(r.Wanted))
	s.failed.Set(float64(len(r.Failed)))
	if r.Error == "" {
		s.lastSync.Set(float64(r.At.UnixNano()) / 1e9)
	}
}

// Queued notes that a change asked for a pass.
func (s *Server) Queued() { s.queued.Set(float64(s.now().UnixNano()) / 1e9) }

// Called counts a call to HNS; result is "ok" or a class of error.
func (s *Server) Called(kind, result string, took time.Duration) {
	s.calls.WithLabelValues(kind, result).Inc()
	s.callTime.WithLabelValues(kind).Observe(took.Seconds())
}

// Report gives the last outcome.
func (s *Server) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// healthy gives the reasons why the proxy is not; none means healthy.
func (s *Server) healthy() []string {
	r, now := s.Report(), s.now()
	var reasons []string
	if !r.Ready {
		reasons = append(reasons, "no pass was complete yet")
	}
	if r.Error != "" && now.Sub(r.Observed) > failureLimit {
		reasons = append(reasons, r.Error)
	} else if r.Ready && now.Sub(r.Observed) > observeLimit {
		reasons = append(reasons, fmt.Sprintf("the host was last checked at %s", r.Observed.Format(time.RFC3339)))
	}
	for _, f := range r.Failed {
		if now.Sub(f.Since) > failureLimit {
			reasons = append(reasons, fmt.Sprintf("service %s at %s: %s", f.Service, f.Frontend, f.Reason))
		}
	}
	return reasons
}

// HealthHandler serves /healthz (everything wanted is programmed), /livez (the loop turns) and /readyz (one pass was
// complete). Bodies are JSON as upstream's, with the reasons added.
func (s *Server) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, counter *prometheus.CounterVec, reasons []string) {
		r := s.Report()
		code := http.StatusOK
		if len(reasons) > 0 {
			code = http.StatusServiceUnavailable
		}
		if counter != nil {
			counter.WithLabelValues(fmt.Sprint(code)).Inc()
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"lastUpdated": r.At, "currentTime": s.now(), "nodeEligible": true, "healthy": len(reasons) == 0, "reasons": reasons,
		})
	}
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.healthz, s.healthy()) })
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		var reasons []string
		at := s.Report().At
		if at.IsZero() {
			at = s.started
		}
		if s.now().Sub(at) > liveLimit {
			reasons = []string{"the loop stands still since " + at.Format(time.RFC3339)}
		}
		answer(w, s.livez, reasons)
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		var reasons []string
		if r := s.Report(); !r.Ready {
			reasons = []string{strings.TrimSpace("no pass was complete yet. " + r.Error)}
		}
		answer(w, nil, reasons)
	})
	return mux
}

// MetricsHandler serves /metrics, /healthz, /proxyMode and /status (the whole report as JSON).
func (s *Server) MetricsHandler(mode string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	mux.Handle("/healthz", s.HealthHandler())
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, mode) })
	mux.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Report())
	})
	return mux
}

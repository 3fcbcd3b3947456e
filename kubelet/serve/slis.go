package serve

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// slis counts what the parts of the kubelet's health said each time that somebody asked, for /metrics/slis. The names
// are those of all of Kubernetes' programs (k8s.io/component-base/metrics/prometheus/slis).
type slis struct {
	registry *prometheus.Registry
	last     *prometheus.GaugeVec
	total    *prometheus.CounterVec
}

// The registry is apart, since /metrics/slis shows these series only.
func newSLIs() *slis {
	s := &slis{registry: prometheus.NewRegistry(),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "kubernetes", Name: "healthcheck",
			Help: "The last answer of a part of the health: 1 for healthy."},
			[]string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "kubernetes", Name: "healthchecks_total",
			Help: "Answers of the parts of the health."},
			[]string{"name", "type", "status"}),
	}
	started := prometheus.NewGauge(prometheus.GaugeOpts{Name: "process_start_time_seconds",
		Help: "When the kubelet was started, in seconds since 1970."})
	started.Set(float64(time.Now().UnixNano()) / 1e9)
	s.registry.MustRegister(s.last, s.total, started)
	return s
}

// observe counts an answer. kind is the page that was asked: healthz or readyz.
func (s *slis) observe(name, kind string, err error) {
	status, value := "success", 1.0
	if err != nil {
		status, value = "error", 0
	}
	s.last.WithLabelValues(name, kind).Set(value)
	s.total.WithLabelValues(name, kind, status).Inc()
}

// reset forgets the answers.
func (s *slis) reset(w http.ResponseWriter, _ *http.Request) {
	s.last.Reset()
	s.total.Reset()
	_, _ = w.Write([]byte("metrics reset\n"))
}

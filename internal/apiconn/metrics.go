package apiconn

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

// clientMetrics are client-go's, by upstream's names, labels and buckets (component-base metrics/prometheus/restclient).
type clientMetrics struct {
	requests       *prometheus.CounterVec
	latency, limit *prometheus.HistogramVec
}

var theClientMetrics = sync.OnceValue(func() *clientMetrics {
	buckets := []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}
	m := &clientMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rest_client_requests_total",
			Help: "Requests to the API server by code, method and host."}, []string{"code", "method", "host"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rest_client_request_duration_seconds",
			Help: "Latency of requests to the API server by verb and host.", Buckets: buckets}, []string{"verb", "host"}),
		limit: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rest_client_rate_limiter_duration_seconds",
			Help: "How long requests waited for the client's own rate limit.", Buckets: buckets}, []string{"verb", "host"}),
	}
	metrics.Register(metrics.RegisterOpts{RequestResult: m, RequestLatency: observer{m.latency}, RateLimiterLatency: observer{m.limit}})
	return m
})

// Increment counts an answer.
func (m *clientMetrics) Increment(_ context.Context, code, method, host string) {
	m.requests.WithLabelValues(code, method, host).Inc()
}

type observer struct{ *prometheus.HistogramVec }

func (o observer) Observe(_ context.Context, verb string, u url.URL, latency time.Duration) {
	o.WithLabelValues(verb, u.Host).Observe(latency.Seconds())
}

// RegisterMetrics adds the metrics of this program's requests to the API server, those of all its clients.
func RegisterMetrics(r prometheus.Registerer) error {
	m := theClientMetrics()
	for _, c := range []prometheus.Collector{m.requests, m.latency, m.limit} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

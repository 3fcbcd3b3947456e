package apiconn

import (
	"context"
	"math"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

// Buckets as upstream has them (component-base metrics/prometheus/restclient, 1.36): seconds of requests, bytes
// of bodies, and seconds that certificates of exec plugins live, from ten minutes to four years.
var (
	latencyBuckets = []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}
	sizeBuckets    = []float64{64, 256, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20,
		16 << 20}
	ageBuckets = []float64{600, 1800, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000}
)

// clientMetrics are client-go's, by upstream's names, labels and buckets.
type clientMetrics struct{ all []prometheus.Collector }

// theClientMetrics has client-go count from now on.
var theClientMetrics = sync.OnceValue(func() *clientMetrics {
	m := &clientMetrics{}
	certificate := &expiry{}
	m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rest_client_exec_plugin_ttl_seconds",
		Help: "Seconds until the client certificate of an exec plugin expires; +Inf without one."}, certificate.left))
	age := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rest_client_exec_plugin_certificate_rotation_age",
		Help: "Seconds that client certificates of exec plugins lived before they were replaced.", Buckets: ageBuckets})
	entries := prometheus.NewGauge(prometheus.GaugeOpts{Name: "rest_client_transport_cache_entries",
		Help: "Transports in the cache of the clients."})
	unused := prometheus.NewCounter(prometheus.CounterOpts{Name: "rest_client_transport_cert_rotation_gc_calls_total",
		Help: "Rotations of client certificates that ended because nothing uses their transport any more."})
	m.all = append(m.all, age, entries, unused)

	metrics.Register(metrics.RegisterOpts{
		RequestLatency: latency{m.histogram("rest_client_request_duration_seconds",
			"Latency of requests to the API server by verb and host.", latencyBuckets)},
		RateLimiterLatency: latency{m.histogram("rest_client_rate_limiter_duration_seconds",
			"How long requests waited for the client's own rate limit.", latencyBuckets)},
		RequestSize: size{m.histogram("rest_client_request_size_bytes", "Size of requests by verb and host.",
			sizeBuckets)},
		ResponseSize: size{m.histogram("rest_client_response_size_bytes", "Size of answers by verb and host.",
			sizeBuckets)},
		RequestResult: result{m.counter("rest_client_requests_total",
			"Requests to the API server by code, method and host.", "code", "method", "host")},
		RequestRetry: result{m.counter("rest_client_request_retries_total",
			"Requests that were sent again, by code, verb and host.", "code", "verb", "host")},
		ClientCertExpiry:      certificate,
		ClientCertRotationAge: seconds{age},
		ExecPluginCalls: calls{m.counter("rest_client_exec_plugin_call_total",
			"Runs of exec plugins by exit code and status.", "code", "call_status")},
		TransportCacheEntries: gauge{entries},
		TransportCreateCalls: outcome{m.counter("rest_client_transport_create_calls_total",
			"Transports that clients asked for, by what the cache had: hit, miss, miss-gc, uncacheable.", "result")},
		TransportCAReloads: reload{m.counter("rest_client_transport_ca_reload_total",
			"Times that a file with the server's authorities was read again, by result and reason.", "result",
			"reason")},
		TransportCertRotationGCCalls: counted{unused},
		TransportCacheGCCalls: outcome{m.counter("rest_client_transport_cache_gc_calls_total",
			"Entries of the cache whose transport nothing uses any more, by result: deleted, skipped.", "result")},
	})
	return m
})

func (m *clientMetrics) histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	o := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	h := prometheus.NewHistogramVec(o, []string{"verb", "host"})
	m.all = append(m.all, h)
	return h
}

func (m *clientMetrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.all = append(m.all, c)
	return c
}

// RegisterMetrics adds the metrics of this program's requests to the API server, those of all its clients.
func RegisterMetrics(r prometheus.Registerer) error {
	for _, c := range theClientMetrics().all {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// What follows gives Prometheus' metrics the methods that client-go calls.

type latency struct{ *prometheus.HistogramVec }

func (l latency) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.WithLabelValues(verb, u.Host).Observe(took.Seconds())
}

type size struct{ *prometheus.HistogramVec }

func (s size) Observe(_ context.Context, verb, host string, bytes float64) {
	s.WithLabelValues(verb, host).Observe(bytes)
}

type result struct{ *prometheus.CounterVec }

func (r result) Increment(_ context.Context, code, method, host string) {
	r.WithLabelValues(code, method, host).Inc()
}

func (r result) IncrementRetry(ctx context.Context, code, verb, host string) {
	r.Increment(ctx, code, verb, host)
}

type calls struct{ *prometheus.CounterVec }

func (c calls) Increment(exit int, status string) {
	c.WithLabelValues(strconv.Itoa(exit), status).Inc()
}

type outcome struct{ *prometheus.CounterVec }

func (o outcome) Increment(result string) { o.WithLabelValues(result).Inc() }

type reload struct{ *prometheus.CounterVec }

func (r reload) Increment(result, reason string) { r.WithLabelValues(result, reason).Inc() }

type counted struct{ prometheus.Counter }

func (c counted) Increment() { c.Inc() }

type gauge struct{ prometheus.Gauge }

func (g gauge) Observe(value int) { g.Set(float64(value)) }

type seconds struct{ prometheus.Histogram }

func (s seconds) Observe(d time.Duration) { s.Histogram.Observe(d.Seconds()) }

// expiry holds the time at which the client certificate of an exec plugin expires; nil without a certificate.
type expiry struct{ at atomic.Pointer[time.Time] }

func (e *expiry) Set(at *time.Time) { e.at.Store(at) }

// left returns seconds, which are negative once the certificate has expired.
func (e *expiry) left() float64 {
	if at := e.at.Load(); at != nil {
		return time.Until(*at).Seconds()
	}
	return math.Inf(1)
}

package serve

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// requests counts the requests to the kubelet, with upstream's names, labels and buckets (pkg/kubelet/server/metrics).
// open counts those that are being answered, sockets the streams over a WebSocket.
type requests struct {
	total, sockets *prometheus.CounterVec
	took           *prometheus.HistogramVec
	open           *prometheus.GaugeVec
}

// newRequests registers nothing: withOwn does.
func newRequests() *requests {
	labels := []string{"method", "path", "server_type", "long_running"}
	return &requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet", Name: "http_requests_total",
			Help: "Requests to the kubelet."}, labels),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet",
			Name: "http_requests_duration_seconds", Help: "How long they took.",
			Buckets: prometheus.DefBuckets}, labels),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: "kubelet", Name: "http_inflight_requests",
			Help: "Requests that are being answered."}, labels),
		sockets: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet",
			Name: "websocket_streaming_requests_total",
			Help: "Streams of containers over a WebSocket."}, []string{"subresource"}),
	}
}

// The values of the labels. Everything else is other, so that nobody can make up series. As with upstream, portForward
// is not one of the long ones.
var (
	countedPaths = []string{"attach", "checkpoint", "configz", "containerLogs", "debug", "exec", "flagz", "healthz",
		"logs", "metrics", "metrics/cadvisor",
		"metrics/probes", "metrics/resource", "pods", "portForward", "pprof", "run", "runningpods", "stats", "statusz"}
	countedMethods = []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE"}
	longPaths      = []string{"attach", "debug", "exec"}
)

// bucketOf returns the label of a path: its first part, and the second too if the first is metrics.
func bucketOf(path string) string {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if second, _, _ := strings.Cut(rest, "/"); first == "metrics" && second != "" {
		first += "/" + second
	}
	if slices.Contains(countedPaths, first) {
		return first
	}
	return "other"
}

// count counts requests to next. server is readwrite, or readonly where nobody is asked who he is.
func (r *requests) count(server string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		method, path := q.Method, bucketOf(q.URL.Path)
		if !slices.Contains(countedMethods, method) {
			method = "other"
		}
		labels := []string{method, path, server, strconv.FormatBool(slices.Contains(longPaths, path))}
		r.total.WithLabelValues(labels...).Inc()
		open := r.open.WithLabelValues(labels...)
		open.Inc()

		// A request that panics is counted like any other.
		began := time.Now()
		defer func() {
			open.Dec()
			r.took.WithLabelValues(labels...).Observe(time.Since(began).Seconds())
		}()
		next.ServeHTTP(w, q)
	})
}

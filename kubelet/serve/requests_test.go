package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// TestRequestsAreCounted: under upstream's labels; what nobody knows is other.
func TestRequestsAreCounted(t *testing.T) {
	r := newRequests()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.total, r.took, r.open)
	inside := ""
	page := func() string {
		w := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		return w.Body.String()
	}
	h := r.count("readwrite", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside = page() }))

	for _, q := range [][2]string{{"GET", "/metrics/cadvisor"}, {"POST", "/exec/ns/p/c"}, {"GET", "/made/up"},
		{"PATCH", "/pods"}, {"GET", "/metrics"}, {"GET", "/metrics/made-up"}} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(q[0], q[1], nil))
	}
	if !strings.Contains(inside,
		`kubelet_http_inflight_requests{long_running="false",method="GET",path="other",server_type="readwrite"} 1`) {
		t.Errorf("while one is answered: %s", inside)
	}

	text := page()
	for _, want := range []string{
		`kubelet_http_requests_total{long_running="false",method="GET",path="metrics/cadvisor",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="true",method="POST",path="exec",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="false",method="GET",path="other",server_type="readwrite"} 2`,
		`kubelet_http_requests_total{long_running="false",method="other",path="pods",server_type="readwrite"} 1`,
		`kubelet_http_requests_duration_seconds_count{long_running="false",method="GET",path="metrics",server_type="readwrite"} 1`,
		`kubelet_http_inflight_requests{long_running="false",method="GET",path="other",server_type="readwrite"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s", want)
		}
	}
}

package apiconn

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/metrics"
)

// TestMetrics asks a server that a kubeconfig names, before the metrics are registered and after.
func TestMetrics(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"major": "1"}`)
	}))
	defer server.Close()
	config, err := Options{Master: server.URL}.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.ServerVersion(); err != nil {
		t.Fatal(err)
	}

	r := prometheus.NewRegistry()
	if err := RegisterMetrics(r); err != nil {
		t.Fatal(err)
	}
	if err := RegisterMetrics(r); err == nil {
		t.Error("registering twice in one place went unnoticed")
	}
	metrics.ClientCertExpiry.Set(new(time.Now().Add(time.Hour)))
	metrics.ClientCertRotationAge.Observe(time.Hour)
	metrics.ExecPluginCalls.Increment(1, "plugin_execution_error")
	metrics.TransportCAReloads.Increment("success", "updated")
	metrics.RequestRetry.IncrementRetry(t.Context(), "429", "GET", "api:6443")

	host := strings.TrimPrefix(server.URL, "http://")
	page := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`rest_client_requests_total{code="200",host="` + host + `",method="GET"} 1`,
		`rest_client_request_duration_seconds_count{host="` + host + `",verb="GET"} 1`,
		`rest_client_response_size_bytes_sum{host="` + host + `",verb="GET"} 14`,
		`rest_client_transport_create_calls_total{result="`,
		"rest_client_transport_cache_entries ",
		"rest_client_exec_plugin_ttl_seconds 35", // 3599.9…
		`rest_client_exec_plugin_certificate_rotation_age_bucket{le="3600"} 1`,
		`rest_client_exec_plugin_call_total{call_status="plugin_execution_error",code="1"} 1`,
		`rest_client_transport_ca_reload_total{reason="updated",result="success"} 1`,
		`rest_client_request_retries_total{code="429",host="api:6443",verb="GET"} 1`,
	} {
		if !strings.Contains(page.Body.String(), "\n"+want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(page.Body)
	}
}

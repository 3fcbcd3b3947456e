package apiconn

import (
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	if err := RegisterMetrics(r); err != nil {
		t.Fatal(err)
	}
	if err := RegisterMetrics(r); err == nil {
		t.Error("registering twice in one place went unnoticed")
	}
	metrics.RequestResult.Increment(t.Context(), "200", "GET", "api:6443")
	metrics.RequestLatency.Observe(t.Context(), "GET", url.URL{Host: "api:6443"}, time.Second)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	if !names["rest_client_requests_total"] || !names["rest_client_request_duration_seconds"] {
		t.Errorf("metrics %v", names)
	}
}

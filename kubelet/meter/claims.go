package meter

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// claims counts what is done for ResourceClaims, with upstream's names, labels and buckets.
type claims struct{ operations, calls *prometheus.HistogramVec }

func newClaims() claims {
	buckets := prometheus.ExponentialBucketsRange(.1, 40, 15)
	return claims{
		operations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "dra",
			Name: "operations_duration_seconds", Buckets: buckets,
			Help: "How long it took to prepare the ResourceClaims of a pod, or to undo that."},
			[]string{"operation_name", "is_error"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "dra",
			Name: "grpc_operations_duration_seconds", Buckets: buckets,
			Help: "How long calls to drivers of resources took."},
			[]string{"driver_name", "method_name", "grpc_status_code"}),
	}
}

// ClaimsDone counts the preparation of a pod's claims (PrepareResources), or its end (UnprepareResources).
func (m *Meter) ClaimsDone(operation string, took time.Duration, failed bool) {
	if m != nil {
		m.claims.operations.WithLabelValues(operation, strconv.FormatBool(failed)).Observe(took.Seconds())
	}
}

// ClaimCall counts a call to a driver. method is gRPC's full name, code the name of its status.
func (m *Meter) ClaimCall(driver, method, code string, took time.Duration) {
	if m != nil {
		m.claims.calls.WithLabelValues(driver, method, code).Observe(took.Seconds())
	}
}

// CountClaims adds the claims that are prepared, by driver. count is called for each scrape. Call it once.
func (m *Meter) CountClaims(count func() map[string]int) {
	if m != nil {
		m.Registry.MustRegister(claimCount{count})
	}
}

// claimCount calls count for each scrape.
type claimCount struct{ count func() map[string]int }

var claimsInUse = prometheus.NewDesc("dra_resource_claims_in_use",
	"ResourceClaims that are prepared on the node, by driver; <any> counts each claim once.", []string{"driver_name"},
	nil)

func (claimCount) Describe(out chan<- *prometheus.Desc) { out <- claimsInUse }

func (c claimCount) Collect(out chan<- prometheus.Metric) {
	for driver, n := range c.count() {
		out <- prometheus.MustNewConstMetric(claimsInUse, prometheus.GaugeValue, float64(n), driver)
	}
}

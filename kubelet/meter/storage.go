package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// newStorageTime returns the histogram of calls to storage drivers, with upstream's name, labels and buckets
// (k8s.io/kubernetes/pkg/volume/csi and csi-lib-utils).
func newStorageTime() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "csi", Name: "operations_seconds",
		Help:    "Container Storage Interface operation duration with gRPC error code status total",
		Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}},
		[]string{"driver_name", "method_name", "grpc_status_code", "migrated"})
}

// StorageCall counts one call to a storage driver. method is gRPC's full name, code the name of its status.
func (m *Meter) StorageCall(driver, method, code string, took time.Duration) {
	if m != nil {
		m.storageTime.WithLabelValues(driver, method, code, "false").Observe(took.Seconds())
	}
}

package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// storageBuckets are upstream's for operations on volumes, in seconds.
var storageBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}

// storage counts calls to storage drivers and operations on volumes, with upstream's names, labels and buckets
// (k8s.io/kubernetes/pkg/volume/csi, pkg/volume/util, and csi-lib-utils).
type storage struct{ calls, operations, overall *prometheus.HistogramVec }

func newStorage() storage {
	return storage{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "csi", Name: "operations_seconds",
			Help:    "Container Storage Interface operation duration with gRPC error code status total",
			Buckets: storageBuckets},
			[]string{"driver_name", "method_name", "grpc_status_code", "migrated"}),
		operations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "storage_operation_duration_seconds",
			Help: "Storage operation duration", Buckets: storageBuckets},
			[]string{"volume_plugin", "operation_name", "status", "migrated"}),
		overall: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "volume_operation_total_seconds",
			Help: "Storage operation end to end duration in seconds", Buckets: storageBuckets},
			[]string{"plugin_name", "operation_name"}),
	}
}

// StorageCall counts one call to a storage driver. method is gRPC's full name, code the name of its status.
func (m *Meter) StorageCall(driver, method, code string, took time.Duration) {
	if m != nil {
		m.storage.calls.WithLabelValues(driver, method, code, "false").Observe(took.Seconds())
	}
}

// VolumeOperation counts what was done about a volume of a pod. plugin is upstream's name of its type, operation
// volume_mount, volume_unmount, or overall_volume_mount for the time from the first attempt to mount a volume until it
// was there.
func (m *Meter) VolumeOperation(plugin, operation string, took time.Duration, err error) {
	if m == nil {
		return
	}
	if operation == "overall_volume_mount" {
		m.storage.overall.WithLabelValues(plugin, operation).Observe(took.Seconds())
		return
	}
	status := "success"
	if err != nil {
		status = "fail-unknown"
	}
	m.storage.operations.WithLabelValues(plugin, operation, status, "false").Observe(took.Seconds())
}

// Count is how many there are of what two labels name.
type Count = map[[2]string]int

// CountVolumes adds the numbers of volumes by type and state (desired_state_of_world, actual_state_of_world), and
// those of pods' certificates by signer and state. Both are called for each scrape. Call it once.
func (m *Meter) CountVolumes(volumes, certificates func() Count) {
	if m != nil {
		m.Registry.MustRegister(counted{volumesDesc, volumes}, counted{certificatesDesc, certificates})
	}
}

var (
	volumesDesc = prometheus.NewDesc("volume_manager_total_volumes", "Volumes that pods want and that are there.",
		[]string{"plugin_name", "state"}, nil)
	certificatesDesc = podDesc("podcertificate_states", "Certificates of pods by their signer and state.",
		"signer_name", "state")
)

// counted calls count for each scrape.
type counted struct {
	desc  *prometheus.Desc
	count func() Count
}

func (c counted) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

func (c counted) Collect(out chan<- prometheus.Metric) {
	for labels, n := range c.count() {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), labels[0], labels[1])
	}
}

package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	v1 "k8s.io/api/core/v1"
)

// podTimes are how long pods take until they run, and passes over them.
type podTimes struct {
	start, sli, total, worker prometheus.Histogram
	pass                      *prometheus.HistogramVec
}

// startBuckets are upstream's for the start of a pod, in seconds.
var startBuckets = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200,
	1800, 2700, 3600}

func newPodTimes(to promauto.Factory) podTimes {
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return to.NewHistogram(prometheus.HistogramOpts{Subsystem: "kubelet", Name: name, Help: help,
			Buckets: buckets})
	}
	return podTimes{
		start: histogram("pod_start_duration_seconds", "From the first sight of a pod until it runs.", startBuckets),
		sli: histogram("pod_start_sli_duration_seconds",
			"From the creation of a pod until it runs, for pods that needed no image and have no init containers.",
			startBuckets),
		total: histogram("pod_start_total_duration_seconds", "From the creation of a pod until it runs.",
			startBuckets),
		worker: histogram("pod_worker_start_duration_seconds",
			"From the first sight of a pod until its worker began.", prometheus.DefBuckets),
		pass: to.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet", Name: "pod_worker_duration_seconds",
			Help: "How long one pass over a pod took, by what it was for.", Buckets: prometheus.DefBuckets},
			[]string{"operation_type"}),
	}
}

// Running records that a pod runs for the first time. seen is when the kubelet learned of it. pulled means that an
// image had to be pulled.
func (m *Meter) Running(pod *v1.Pod, seen, now time.Time, pulled bool) {
	if m == nil {
		return
	}
	m.podTimes.start.Observe(now.Sub(seen).Seconds())
	if created := pod.CreationTimestamp; !created.IsZero() {
		took := max(now.Sub(created.Time), 0).Seconds()
		m.podTimes.total.Observe(took)
		if !pulled && len(pod.Spec.InitContainers) == 0 {
			m.podTimes.sli.Observe(took)
			m.parts.life.firstNetwork(pod, max(now.Sub(created.Time), 0))
		}
	}
}

// Worker records one pass over a pod. create marks the first pass, for which waited is the time until it began.
func (m *Meter) Worker(create bool, took, waited time.Duration) {
	if m == nil {
		return
	}
	if !create {
		m.podTimes.pass.WithLabelValues("sync").Observe(took.Seconds())
		return
	}
	m.podTimes.pass.WithLabelValues("create").Observe(took.Seconds())
	m.podTimes.worker.Observe(waited.Seconds())
}

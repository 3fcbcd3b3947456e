package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	v1 "k8s.io/api/core/v1"
)

// probes are the metrics of probes, which /metrics/probes has.
type probes struct {
	count *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

func newProbes(to promauto.Factory) probes {
	return probes{
		count: to.NewCounterVec(prometheus.CounterOpts{Subsystem: "prober", Name: "probe_total",
			Help: "Probes by result."},
			[]string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}),
		took: to.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "prober", Name: "probe_duration_seconds",
			Help: "How long probes took."}, []string{"probe_type", "container", "pod", "namespace"}),
	}
}

// Probe counts one probe. kind is Liveness, Readiness or Startup; result is successful, failed or unknown.
func (m *Meter) Probe(pod *v1.Pod, container, kind, result string, took time.Duration) {
	if m == nil {
		return
	}
	m.probes.count.WithLabelValues(kind, result, container, pod.Name, pod.Namespace, string(pod.UID)).Inc()
	m.probes.took.WithLabelValues(kind, container, pod.Name, pod.Namespace).Observe(took.Seconds())
}

// Forget removes the series of a pod that is gone.
func (m *Meter) Forget(pod *v1.Pod) {
	if m == nil || pod == nil {
		return
	}
	m.probes.count.DeletePartialMatch(prometheus.Labels{"pod_uid": string(pod.UID)})
	m.probes.took.DeletePartialMatch(prometheus.Labels{"pod": pod.Name, "namespace": pod.Namespace})
}

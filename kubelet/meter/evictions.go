package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// evictions counts pods that ended because something was short.
type evictions struct {
	evicted, preempted *prometheus.CounterVec
	age                *prometheus.HistogramVec
}

func newEvictions(to promauto.Factory) evictions {
	const signal = "eviction_signal"
	return evictions{
		evicted: counterVec(to, "evictions", "Pods that were evicted, by the signal that led to it.", signal),
		preempted: counterVec(to, "preemptions",
			"Pods that ended to make room for critical ones, by the first resource that was short.",
			"preemption_signal"),
		age: to.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet", Name: "eviction_stats_age_seconds",
			Help:    "How old the figures were because of which a pod was evicted, by signal.",
			Buckets: prometheus.DefBuckets}, []string{signal}),
	}
}

// Evicted counts a pod that was evicted because of a signal whose figure was so old. Limits of the pod's own have no
// age: it is negative.
func (m *Meter) Evicted(signal string, age time.Duration) {
	if m == nil {
		return
	}
	m.evictions.evicted.WithLabelValues(signal).Inc()
	if age >= 0 {
		m.evictions.age.WithLabelValues(signal).Observe(age.Seconds())
	}
}

// Preempted counts a pod that ended to make room for a critical one, which lacked this resource.
func (m *Meter) Preempted(resource string) {
	if m != nil {
		m.evictions.preempted.WithLabelValues(resource).Inc()
	}
}

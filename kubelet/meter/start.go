package meter

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Start measures the start of a node in parts, under upstream's names. A nil Start measures nothing. It is safe for
// concurrent use.
type Start struct {
	boot, began time.Time // boot is zero if it is not known

	mu                   sync.Mutex
	tried, joined, ready time.Time

	preKubelet, preJoin, joining, afterJoin, whole prometheus.Gauge
}

func newStart(boot time.Time) *Start {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: "kubelet",
			Name: "node_startup_" + name + "duration_seconds", Help: help})
	}
	return &Start{boot: boot, began: time.Now(),
		preKubelet: gauge("pre_kubelet_",
			"From the start of the machine until that of the kubelet which made the node in the API."),
		preJoin:   gauge("pre_registration_", "From the start of the kubelet until it asked the API for its node."),
		joining:   gauge("registration_", "From the request for the node until the API had it."),
		afterJoin: gauge("post_registration_", "From when the API had the node until it was ready."),
		whole:     gauge("", "From the start of the machine until the node was ready."),
	}
}

func (s *Start) register(r *prometheus.Registry) {
	r.MustRegister(s.preKubelet, s.preJoin, s.joining, s.afterJoin, s.whole)
}

// Joining says that the kubelet asks the API for its node. The first call counts.
func (s *Start) Joining() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried.IsZero() {
		s.tried = time.Now()
	}
}

// Joined says that the API has a new node. It is not called by the kubelet of a node that was there before: that start
// is none of the node's.
func (s *Start) Joined() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried.IsZero() || !s.joined.IsZero() {
		return
	}

	s.joined = time.Now()
	if !s.boot.IsZero() {
		s.preKubelet.Set(s.began.Sub(s.boot).Seconds())
	}
	s.preJoin.Set(s.tried.Sub(s.began).Seconds())
	s.joining.Set(s.joined.Sub(s.tried).Seconds())
}

// Ready says that the node is ready. The first call after Joined counts.
func (s *Start) Ready() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joined.IsZero() || !s.ready.IsZero() {
		return
	}

	s.ready = time.Now()
	s.afterJoin.Set(s.ready.Sub(s.joined).Seconds())
	if !s.boot.IsZero() {
		s.whole.Set(s.ready.Sub(s.boot).Seconds())
	}
}

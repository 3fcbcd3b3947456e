package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Images counts pulls and removals of images, with upstream's names, labels and buckets. A nil Images counts nothing.
type Images struct {
	pulls    *prometheus.HistogramVec
	removals *prometheus.CounterVec
	ensured  *prometheus.CounterVec
}

func newImages() *Images {
	return &Images{
		pulls: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet", Name: "image_pull_duration_seconds",
			Help:    "How long pulls of images took, with the wait for their turn, by size of the image.",
			Buckets: []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}}, []string{"image_size_in_bytes"}),
		removals: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet", Name: "image_garbage_collected_total",
			Help: "Images that were removed because nothing used them, by reason: age or space."}, []string{"reason"}),
		ensured: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet", Name: "image_manager_ensure_image_requests_total",
			Help: "How often an image had to be there: whether it was, by which policy, and whether it was pulled."}, []string{"present_locally", "pull_policy", "pull_required"}),
	}
}

func (i *Images) register(r *prometheus.Registry) { r.MustRegister(i.pulls, i.removals, i.ensured) }

// Pulled counts the pull of an image of that many bytes; 0 if its size is not known.
func (i *Images) Pulled(size uint64, took time.Duration) {
	if i != nil {
		i.pulls.WithLabelValues(sizeRange(size)).Observe(took.Seconds())
	}
}

// Removed counts an image that was removed. reason is age or space.
func (i *Images) Removed(reason string) {
	if i != nil {
		i.removals.WithLabelValues(reason).Inc()
	}
}

// Ensured counts an image that had to be there. present is true, false, or unknown if the runtime did not say; pulled is true, false or unknown.
func (i *Images) Ensured(present, policy, pulled string) {
	if i != nil {
		i.ensured.WithLabelValues(present, policy, pulled).Inc()
	}
}

// sizeRange returns upstream's label of a size: 1GB-5GB.
func sizeRange(size uint64) string {
	const mega, giga = 1 << 20, 1 << 30
	if size == 0 {
		return "N/A"
	}
	for _, r := range []struct {
		above uint64
		name  string
	}{{100 * giga, "GT100GB"}, {60 * giga, "60GB-100GB"}, {40 * giga, "40GB-60GB"}, {30 * giga, "30GB-40GB"}, {20 * giga, "20GB-30GB"}, {10 * giga, "10GB-20GB"},
		{5 * giga, "5GB-10GB"}, {giga, "1GB-5GB"}, {500 * mega, "500MB-1GB"}, {100 * mega, "100MB-500MB"}, {10 * mega, "10MB-100MB"}} {
		if size > r.above {
			return r.name
		}
	}
	return "0-10MB"
}

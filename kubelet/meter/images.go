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
	checks   *prometheus.CounterVec
}

func newImages() *Images {
	return &Images{
		pulls: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet",
			Name:    "image_pull_duration_seconds",
			Help:    "How long pulls of images took, with the wait for their turn, by size of the image.",
			Buckets: []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}},
			[]string{"image_size_in_bytes"}),
		removals: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet",
			Name: "image_garbage_collected_total",
			Help: "Images that were removed because nothing used them, by reason: age or space."}, []string{"reason"}),
		ensured: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet",
			Name: "image_manager_ensure_image_requests_total",
			Help: "How often an image had to be there: whether it was, by which policy, and whether it was pulled."},
			[]string{"present_locally", "pull_policy", "pull_required"}),
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet",
			Name: "imagemanager_image_mustpull_checks_total",
			Help: "How often it was checked whether a pod may have an image that is there, by outcome."},
			[]string{"result"}),
	}
}

func (i *Images) register(r *prometheus.Registry) {
	r.MustRegister(i.pulls, i.removals, i.ensured, i.checks)
}

// Checked counts a check whether a pod may have an image that is there. outcome is one of a few words.
func (i *Images) Checked(outcome string) {
	if i != nil {
		i.checks.WithLabelValues(outcome).Inc()
	}
}

// CountPulls adds the numbers of pulls whose end is not known, and of those that are remembered. count is called for
// each scrape. Call it once.
func (m *Meter) CountPulls(count func() (intents, records int)) {
	if m == nil {
		return
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Subsystem: "kubelet", Name: "imagemanager_ondisk_" + name,
			Help: help}, func() float64 { return float64(value()) })
	}
	m.Registry.MustRegister(gauge("pullintents", "Pulls of images whose end is not known.",
		func() int { n, _ := count(); return n }),
		gauge("pulledrecords", "Images of which it is remembered by whose login they were pulled.",
			func() int { _, n := count(); return n }))
}

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

// Ensured counts an image that had to be there. present is true, false, or unknown if the runtime did not say; pulled
// is true, false or unknown.
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
	}{{100 * giga, "GT100GB"}, {60 * giga, "60GB-100GB"}, {40 * giga, "40GB-60GB"}, {30 * giga,
		"30GB-40GB"}, {20 * giga, "20GB-30GB"}, {10 * giga, "10GB-20GB"},
		{5 * giga, "5GB-10GB"}, {giga, "1GB-5GB"}, {500 * mega, "500MB-1GB"}, {100 * mega, "100MB-500MB"},
		{10 * mega, "10MB-100MB"}} {
		if size > r.above {
			return r.name
		}
	}
	return "0-10MB"
}

package meter

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resizes counts changes of the resources of pods that run, with upstream's names, labels and buckets. A nil Resizes
// counts nothing. How many are under way, CountPods shows.
type Resizes struct {
	asked, refused, late *prometheus.CounterVec
	took                 *prometheus.HistogramVec
}

func newResizes() *Resizes {
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet", Name: name, Help: help}, labels)
	}
	return &Resizes{
		asked: vector("container_requested_resizes_total", "Resources of containers that were to change.", "resource",
			"requirement", "operation"),
		refused: vector("pod_infeasible_resizes_total", "Resizes that the node can never grant.", "reason_detail"),
		late: vector("pod_deferred_accepted_resizes_total", "Resizes that were granted after they had to wait.",
			"retry_trigger"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet",
			Name: "pod_resize_duration_milliseconds", Help: "How long it took to carry a resize out.",
			Buckets: []float64{10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000}},
			[]string{"success"}),
	}
}

func (r *Resizes) register(to *prometheus.Registry) {
	to.MustRegister(r.asked, r.refused, r.late, r.took)
}

// Asked counts what differs between two versions of a pod; before may be nil.
func (r *Resizes) Asked(before, now *v1.Pod) {
	if r == nil || before == nil || now == nil || before.Generation == now.Generation {
		return
	}
	for _, s := range [][2][]v1.Container{{before.Spec.InitContainers, now.Spec.InitContainers},
		{before.Spec.Containers, now.Spec.Containers}} {
		for i := range min(len(s[0]), len(s[1])) {
			a, b := s[0][i].Resources, s[1][i].Resources
			r.one("memory", "requests", a.Requests.Memory(), b.Requests.Memory())
			r.one("memory", "limits", a.Limits.Memory(), b.Limits.Memory())
			r.one("cpu", "requests", a.Requests.Cpu(), b.Requests.Cpu())
			r.one("cpu", "limits", a.Limits.Cpu(), b.Limits.Cpu())
		}
	}
}

func (r *Resizes) one(name, requirement string, before, now *resource.Quantity) {
	operation := ""
	switch difference := now.Cmp(*before); {
	case difference == 0:
		return
	case now.IsZero():
		operation = "remove"
	case before.IsZero():
		operation = "add"
	case difference < 0:
		operation = "decrease"
	default:
		operation = "increase"
	}
	r.asked.WithLabelValues(name, requirement, operation).Inc()
}

// Infeasible counts a resize that the node can never grant. reason is one of a few words.
func (r *Resizes) Infeasible(reason string) {
	if r != nil {
		r.refused.WithLabelValues(reason).Inc()
	}
}

// Late counts a resize that was granted after it had to wait.
func (r *Resizes) Late(trigger string) {
	if r != nil {
		r.late.WithLabelValues(trigger).Inc()
	}
}

// Done counts a resize that was carried out, or failed.
func (r *Resizes) Done(took time.Duration, failed bool) {
	if r != nil {
		r.took.WithLabelValues(strconv.FormatBool(!failed)).Observe(float64(took.Milliseconds()))
	}
}

package meter

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
)

// Pods are the pods of the node at one time, for CountPods.
type Pods struct {
	// Desired are the pods that a source has; Active those of them that have not ended. First those of the API, then
	// static ones.
	Desired, Active [2]int
	// Mirrors are the mirrors that static pods should have in the API.
	Mirrors int
	// Ephemeral are the ephemeral containers of all pods.
	Ephemeral int
	Working   map[Working]int
	// Pending counts the pods whose resize waits, by the reason. Resizing counts the pods whose resize is being
	// carried out.
	Pending  map[string]int
	Resizing int
}

// Working is what the kubelet does with a pod.
type Working struct {
	// Lifecycle is sync, terminating or terminated.
	Lifecycle string
	// Config is desired, orphan (no source has the pod any more) or runtime_only (none that this kubelet knows of had
	// it).
	Config string
	Static bool
}

// Add counts one pod that a source has, or had if gone is set.
func (p *Pods) Add(pod *v1.Pod, w Working) {
	// at is the index of static pods, 1, or of others, 0.
	at := 0
	if w.Static {
		at = 1
	}
	ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	if w.Config == "desired" {
		p.Desired[at]++
		if !ended {
			p.Active[at]++
		}
		if w.Static {
			p.Mirrors++
		}
	}
	p.Ephemeral += len(pod.Spec.EphemeralContainers)
	p.count(w)

	for _, c := range pod.Status.Conditions {
		switch {
		case c.Status != v1.ConditionTrue:
		case c.Type == v1.PodResizePending:
			if p.Pending == nil {
				p.Pending = map[string]int{}
			}
			p.Pending[strings.ToLower(c.Reason)]++
		case c.Type == v1.PodResizeInProgress:
			p.Resizing++
		}
	}
}

// AddOrphan counts a pod that only the runtime has.
func (p *Pods) AddOrphan() { p.count(Working{Lifecycle: "terminating", Config: "runtime_only"}) }

func (p *Pods) count(w Working) {
	if p.Working == nil {
		p.Working = map[Working]int{}
	}
	p.Working[w]++
}

// CountPods adds the numbers of pods. count is called for each scrape. Call it once.
func (m *Meter) CountPods(count func() Pods) {
	if m != nil {
		m.Registry.MustRegister(podCount{count})
	}
}

// podCount calls count for each scrape.
type podCount struct{ count func() Pods }

func podDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("kubelet_"+name, help, labels, nil)
}

var (
	podsDesired  = podDesc("desired_pods", "Pods that the node shall run.", "static")
	podsActive   = podDesc("active_pods", "Pods that the node shall run and that have not ended.", "static")
	podsMirrored = podDesc("mirror_pods", "Mirrors that static pods should have in the API.")
	podsWorking  = podDesc("working_pods",
		"Pods that the kubelet works on, by what it does with them and who knows them.", "lifecycle", "config",
		"static")
	podsEphemeral = podDesc("managed_ephemeral_containers", "Ephemeral containers of the pods.")
	podsPending   = podDesc("pod_pending_resizes", "Resizes of pods that wait, by reason.", "reason")
	podsResizing  = podDesc("pod_in_progress_resizes", "Resizes of pods that are being carried out.")
)

// Describe sends all series.
func (podCount) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{podsDesired, podsActive, podsMirrored, podsWorking, podsEphemeral, podsPending,
		podsResizing} {
		out <- d
	}
}

// Collect sends the current numbers. As with upstream, working_pods has all that can be, also where it is zero.
func (p podCount) Collect(out chan<- prometheus.Metric) {
	now := p.count()
	send := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for at, static := range []string{"", "true"} {
		send(podsDesired, now.Desired[at], static)
		send(podsActive, now.Active[at], static)
		for _, lifecycle := range []string{"sync", "terminating", "terminated"} {
			for _, config := range []string{"desired", "orphan"} {
				send(podsWorking, now.Working[Working{lifecycle, config, at == 1}], lifecycle, config, static)
			}
		}
	}
	for _, lifecycle := range []string{"sync", "terminating", "terminated"} {
		send(podsWorking, now.Working[Working{Lifecycle: lifecycle, Config: "runtime_only"}], lifecycle, "runtime_only",
			"unknown")
	}
	send(podsMirrored, now.Mirrors)
	send(podsEphemeral, now.Ephemeral)
	send(podsResizing, now.Resizing)
	for reason, n := range now.Pending {
		send(podsPending, n, reason)
	}
}

package meter

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
)

// Life counts what becomes of pods, with upstream's names, labels and buckets. A nil Life counts nothing.
type Life struct {
	perPod, statusSync                     prometheus.Histogram
	sandboxTime, cgroupTime                *prometheus.HistogramVec
	sandboxErrors, terminated, rejected    *prometheus.CounterVec
	restarted                              *prometheus.CounterVec
	orphans, sleepsCut, plainHooks         prometheus.Counter
	cgroupVersion, swept, sweepErrors      prometheus.Gauge
	volumesAsked, volumesMade, volumesFail prometheus.Counter // images that are volumes

	network    sync.Once
	firstStart prometheus.Gauge
}

func newLife() *Life {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Subsystem: "kubelet", Name: name, Help: help})
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "kubelet", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: "kubelet", Name: name, Help: help})
	}
	timed := func(name, help, label string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet", Name: name, Help: help,
			Buckets: prometheus.DefBuckets}, []string{label})
	}

	l := &Life{
		perPod: prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: "kubelet", Name: "containers_per_pod_count",
			Help:    "Containers of each pod that began.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 5)}),
		statusSync: prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: "kubelet",
			Name:    "pod_status_sync_duration_seconds",
			Help:    "From the first change of a pod's status until the API has it.",
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 20, 30, 45, 60}}),
		sandboxTime: timed("run_podsandbox_duration_seconds",
			"How long it took to make sandboxes, by handler of the runtime.", "runtime_handler"),
		sandboxErrors: vector("run_podsandbox_errors_total",
			"Sandboxes that could not be made, by handler of the runtime.", "runtime_handler"),
		cgroupTime: timed("cgroup_manager_duration_seconds",
			"How long it took to make, change and remove cgroups of pods.", "operation_type"),
		terminated: vector("terminated_containers_total", "Containers that ended.", "container_type", "exit_code",
			"reason"),
		rejected: vector("admission_rejections_total", "Pods that the node refused, by reason.", "reason"),
		restarted: vector("restarted_pods_total",
			"Pods that ended and began again under the same UID, as static pods do.", "static"),
		orphans: counter("orphaned_runtime_pods_total", "Pods that only the runtime knew."),
		sleepsCut: counter("sleep_action_terminated_early_total",
			"Hooks that sleep and were ended before their time."),
		plainHooks: counter("lifecycle_handler_http_fallbacks_total",
			"Hooks that succeeded over HTTP after HTTPS did not."),
		cgroupVersion: gauge("cgroup_version", "Version of the cgroups of this machine, 1 or 2; 0 without."),
		swept: gauge("orphan_pod_cleaned_volumes",
			"Pods that no one knows whose volumes were removed in the last sweep."),
		sweepErrors:  gauge("orphan_pod_cleaned_volumes_errors", "Pods that no one knows whose volumes could not be removed."),
		volumesAsked: counter("image_volume_requested_total", "Volumes of containers that are images."),
		volumesMade: counter("image_volume_mounted_succeed_total",
			"Volumes of containers that are images and were mounted."),
		volumesFail: counter("image_volume_mounted_errors_total",
			"Volumes of containers that are images and could not be mounted."),
		firstStart: gauge("first_network_pod_start_sli_duration_seconds",
			"From the creation of the first pod with a network of its own until it ran, if it needed no image and has no init containers."),
	}

	for _, static := range []string{"", "true"} { // upstream shows both from its first round on
		l.restarted.WithLabelValues(static)
	}
	return l
}

func (l *Life) register(r *prometheus.Registry) {
	r.MustRegister(l.perPod, l.statusSync, l.sandboxTime, l.sandboxErrors, l.cgroupTime, l.terminated, l.rejected,
		l.restarted, l.orphans, l.sleepsCut, l.plainHooks,
		l.cgroupVersion, l.swept, l.sweepErrors, l.volumesAsked, l.volumesMade, l.volumesFail, l.firstStart)
}

// Began counts a pod that the kubelet starts to manage, by how many containers it has.
func (l *Life) Began(p *v1.Pod) {
	if l != nil && p != nil {
		l.perPod.Observe(float64(len(p.Spec.Containers)))
	}
}

// firstNetwork takes the start of a pod that counts for the start time, if it is the first one with a network of its
// own.
func (l *Life) firstNetwork(p *v1.Pod, took time.Duration) {
	if !p.Spec.HostNetwork {
		l.network.Do(func() { l.firstStart.Set(took.Seconds()) })
	}
}

// StatusWritten counts a status that the API has since now. took is the time since its first change.
func (l *Life) StatusWritten(took time.Duration) {
	if l != nil {
		l.statusSync.Observe(took.Seconds())
	}
}

// sandbox counts a call that was to make a sandbox.
func (l *Life) sandbox(handler string, took time.Duration, err error) {
	l.sandboxTime.WithLabelValues(handler).Observe(took.Seconds())
	if err != nil {
		l.sandboxErrors.WithLabelValues(handler).Inc()
	}
}

// Cgroup counts what was done to a cgroup: create, update or destroy.
func (l *Life) Cgroup(operation string, took time.Duration) {
	if l != nil {
		l.cgroupTime.WithLabelValues(operation).Observe(took.Seconds())
	}
}

// CgroupVersion says which version of cgroups the machine has.
func (l *Life) CgroupVersion(version int) {
	if l != nil {
		l.cgroupVersion.Set(float64(version))
	}
}

// Status counts the containers that have ended since an earlier status of the same pod.
func (l *Life) Status(before, now *v1.PodStatus) {
	if l == nil {
		return
	}
	for _, s := range []struct {
		kind        string
		before, now []v1.ContainerStatus
	}{{"init_container", before.InitContainerStatuses, now.InitContainerStatuses}, {"container",
		before.ContainerStatuses, now.ContainerStatuses},
		{"ephemeral_container", before.EphemeralContainerStatuses, now.EphemeralContainerStatuses}} {
		for i := range s.now {
			if end := s.now[i].State.Terminated; end != nil && !ended(s.before, s.now[i].Name) {
				l.terminated.WithLabelValues(s.kind, strconv.Itoa(int(end.ExitCode)), end.Reason).Inc()
			}
		}
	}
}

// ended reports whether the container of that name has ended; false if there is none.
func ended(list []v1.ContainerStatus, name string) bool {
	for i := range list {
		if list[i].Name == name {
			return list[i].State.Terminated != nil
		}
	}
	return false
}

// refusals are the reasons that upstream counts by name (admissionRejectionReasons of pkg/kubelet/kubelet.go).
var refusals = map[string]bool{"AppArmor": true, "PodOSSelectorNodeLabelDoesNotMatch": true, "PodOSNotSupported": true,
	"InvalidNodeInfo":                     true,
	"InitContainerRestartPolicyForbidden": true, "SupplementalGroupsPolicyNotSupported": true,
	"UnexpectedAdmissionError": true, "UnknownReason": true,
	"UnexpectedPredicateFailureType": true, "OutOfcpu": true, "OutOfmemory": true, "OutOfephemeral-storage": true,
	"OutOfpods":                     true,
	"PodLevelResourcesNotSupported": true, "PodFeatureUnsupported": true, "node(s) had untolerated taint(s)": true,
	"Evicted": true, "SysctlForbidden": true,
	"TopologyAffinityError": true, "NodeShutdown": true, "VolumeAttachmentLimitExceeded": true}

// Rejected counts a pod that the node refused. Anybody can make up reasons, by names of resources: those that upstream
// does not name are counted together.
func (l *Life) Rejected(reason string) {
	if l == nil {
		return
	}
	switch {
	case refusals[reason]:
	case strings.HasPrefix(reason, "OutOf"):
		reason = "OutOfExtendedResources"
	default:
		reason = "Other"
	}
	l.rejected.WithLabelValues(reason).Inc()
}

// Restarted counts a static pod that begins again.
func (l *Life) Restarted() {
	if l != nil {
		l.restarted.WithLabelValues("true").Inc()
	}
}

// Orphan counts a pod that only the runtime knew.
func (l *Life) Orphan() {
	if l != nil {
		l.orphans.Inc()
	}
}

// SleepCut counts a hook that was ended while it slept.
func (l *Life) SleepCut() {
	if l != nil {
		l.sleepsCut.Inc()
	}
}

// PlainHook counts a hook that succeeded over HTTP in place of HTTPS.
func (l *Life) PlainHook() {
	if l != nil {
		l.plainHooks.Inc()
	}
}

// Swept says how many pods that nobody knows had volumes which were removed, and which could not be, in the last sweep.
func (l *Life) Swept(removed, failed int) {
	if l != nil {
		l.swept.Set(float64(removed))
		l.sweepErrors.Set(float64(failed))
	}
}

// ImageVolumes counts the images that a container has as volumes; failed says that they are why it did not start.
func (l *Life) ImageVolumes(n int, failed bool) {
	if l == nil || n == 0 {
		return
	}
	l.volumesAsked.Add(float64(n))
	if failed {
		l.volumesFail.Add(float64(n))
	} else {
		l.volumesMade.Add(float64(n))
	}
}

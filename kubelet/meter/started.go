package meter

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	v1 "k8s.io/api/core/v1"
)

// started counts the sandboxes and containers that were to be started.
type started struct {
	pods, podErrors                                             prometheus.Counter
	containers, containerErrors, hostProcess, hostProcessErrors *prometheus.CounterVec
}

func newStarted(to promauto.Factory) started {
	counter := func(name, help string) prometheus.Counter {
		return to.NewCounter(prometheus.CounterOpts{Subsystem: "kubelet", Name: name, Help: help})
	}
	const kind, code = "container_type", "code"
	return started{
		pods:       counter("started_pods_total", "Sandboxes that were to be created."),
		podErrors:  counter("started_pods_errors_total", "Sandboxes that could not be created."),
		containers: counterVec(to, "started_containers_total", "Containers started.", kind),
		containerErrors: counterVec(to, "started_containers_errors_total",
			"Containers that could not be started, by reason.", kind, code),
		hostProcess: counterVec(to, "started_host_process_containers_total",
			"HostProcess containers that were to be started (Windows).", kind),
		hostProcessErrors: counterVec(to, "started_host_process_containers_errors_total",
			"HostProcess containers that could not be started (Windows).", kind, code),
	}
}

// Sandbox counts the creation of a sandbox; err is nil if it succeeded.
func (m *Meter) Sandbox(err error) {
	if m == nil {
		return
	}
	m.started.pods.Inc()
	if err != nil {
		m.started.podErrors.Inc()
	}
}

// Container counts the start of a container. code is the reason if it could not be started, or "".
func (m *Meter) Container(pod *v1.Pod, name, code string, hostProcess bool) {
	if m == nil {
		return
	}
	kind := containerType(pod, name)
	m.started.containers.WithLabelValues(kind).Inc()
	if hostProcess {
		m.started.hostProcess.WithLabelValues(kind).Inc()
	}

	if code == "" {
		return
	}
	m.started.containerErrors.WithLabelValues(kind, code).Inc()
	if hostProcess {
		m.started.hostProcessErrors.WithLabelValues(kind, code).Inc()
	}
}

func containerType(pod *v1.Pod, name string) string {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == name {
			return "init_container"
		}
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if c.Name == name {
			return "ephemeral_container"
		}
	}
	return "container"
}

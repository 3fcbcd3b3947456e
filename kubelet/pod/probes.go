package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// ProbeKind is which of a container's probes a result is from.
type ProbeKind string

// The probes of a container.
const (
	StartupProbe   ProbeKind = "Startup"
	ReadinessProbe ProbeKind = "Readiness"
	LivenessProbe  ProbeKind = "Liveness"
)

// Probe holds the latest probe results of one container instance. A nil result is not known yet.
type Probe struct {
	ContainerID          string
	Started, Ready, Live *bool
	// Message says why Live or Started is false.
	Message string
}

// probeResults are the results of the probes of a pod, by container name. Those of an instance replace those of the one
// before it.
type probeResults map[string]Probe

// note keeps a result. A failed startup probe counts as a failed liveness probe: the container is restarted.
func (m probeResults) note(container, id string, kind ProbeKind, ok bool) {
	p := m[container]
	if p.ContainerID != id {
		p = Probe{ContainerID: id}
	}

	switch kind {
	case StartupProbe:
		p.Started = &ok
		if !ok {
			p.Live, p.Message = &ok, "failed startup probe"
		}
	case ReadinessProbe:
		p.Ready = &ok
	case LivenessProbe:
		p.Live = &ok
		if !ok {
			p.Message = "failed liveness probe"
		}
	}

	m[container] = p
}

// adopt keeps what is true of the results of an earlier kubelet, unless the instance's own probes have answered.
// Whatever an earlier kubelet had not seen succeed is left for the probes to find out.
func (m probeResults) adopt(container, id string, up, ready bool) {
	if m[container].ContainerID == id {
		return
	}
	yes := true
	p := Probe{ContainerID: id}
	if up {
		p.Started = &yes
	}
	if ready {
		p.Ready = &yes
	}
	m[container] = p
}

// started reports whether a running container counts as started.
func (m probeResults) started(c *v1.Container, cur *observed.Container) bool {
	if cur == nil || cur.State != observed.Running {
		return false
	}
	if c.StartupProbe == nil {
		return true
	}
	p := m[c.Name]
	return p.ContainerID == cur.ID && p.Started != nil && *p.Started
}

// ready reports whether a container counts as ready.
func (m probeResults) ready(c *v1.Container, cur *observed.Container) bool {
	if !m.started(c, cur) {
		return false
	}
	if c.ReadinessProbe == nil {
		return true
	}
	p := m[c.Name]
	return p.ContainerID == cur.ID && p.Ready != nil && *p.Ready
}

// failed reports whether the liveness or startup probe of a container instance has failed.
func (m probeResults) failed(c *v1.Container, cur *observed.Container) bool {
	p := m[c.Name]
	return cur != nil && p.ContainerID == cur.ID && p.Live != nil && !*p.Live
}

// grace returns the grace period of a container whose probe failed. The probe may have one of its own.
func (p Probe) grace(c *v1.Container, otherwise time.Duration) time.Duration {
	by := c.LivenessProbe
	if p.Started == nil || !*p.Started {
		if c.StartupProbe != nil {
			by = c.StartupProbe
		}
	}
	if by == nil || by.TerminationGracePeriodSeconds == nil {
		return otherwise
	}
	return max(time.Duration(*by.TerminationGracePeriodSeconds)*time.Second, time.Second)
}

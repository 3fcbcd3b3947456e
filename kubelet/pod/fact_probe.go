package pod

import "time"

// ProbeKind is which of a container's probes a result is from.
type ProbeKind string

// The probes of a container.
const (
	StartupProbe   ProbeKind = "Startup"
	ReadinessProbe ProbeKind = "Readiness"
	LivenessProbe  ProbeKind = "Liveness"
)

// Probed is a result of a probe that has changed, of one container instance.
type Probed struct {
	Container, ContainerID string
	Kind                   ProbeKind
	Success                bool
}

// take keeps the result for the instance that the probe ran against. A result for an older instance comes late and
// says nothing about the present one. A failed startup probe counts as a failed liveness probe: the container is
// restarted.
func (f Probed) take(s *State, _ time.Time) {
	if c, ok := s.runtime.Latest(f.Container); !ok || c.ID != f.ContainerID {
		return // about an instance that is gone
	}

	p := s.probes[f.Container]
	if p.ContainerID != f.ContainerID {
		p = Probe{ContainerID: f.ContainerID}
	}

	ok := f.Success
	switch f.Kind {
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

	s.probes[f.Container] = p
}

// ProbeAdopted is what an earlier kubelet had found out about a container instance that still runs.
type ProbeAdopted struct {
	Container, ContainerID string
	Started, Ready         bool
}

// take keeps what is true of it only: whatever an earlier kubelet had not seen succeed is left for the probes to find
// out.
func (f ProbeAdopted) take(s *State, _ time.Time) {
	c, ok := s.runtime.Latest(f.Container)
	if !ok || c.ID != f.ContainerID || s.probes[f.Container].ContainerID == f.ContainerID {
		return // about an instance that is gone, or whose own probes have answered
	}

	yes := true
	p := Probe{ContainerID: f.ContainerID}
	if f.Started {
		p.Started = &yes
	}
	if f.Ready {
		p.Ready = &yes
	}
	s.probes[f.Container] = p
}

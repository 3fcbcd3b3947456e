package pod

import "time"

// Probed is a result of a probe that has changed, of one container instance.
type Probed struct {
	Container, ContainerID string
	Kind                   ProbeKind
	Success                bool
}

// take keeps the result for the instance that the probe ran against. A result for an older instance comes late and
// says nothing about the present one.
func (f Probed) take(s *State, _ time.Time) {
	if c, ok := s.runtime.Latest(f.Container); ok && c.ID == f.ContainerID {
		s.probes.note(f.Container, f.ContainerID, f.Kind, f.Success)
	}
}

// ProbeAdopted is what an earlier kubelet had found out about a container instance that still runs.
type ProbeAdopted struct {
	Container, ContainerID string
	Started, Ready         bool
}

func (f ProbeAdopted) take(s *State, _ time.Time) {
	if c, ok := s.runtime.Latest(f.Container); ok && c.ID == f.ContainerID {
		s.probes.adopt(f.Container, f.ContainerID, f.Started, f.Ready)
	}
}

package pod

import (
	"time"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// Observed is what the runtime has of the pod, in part or as a whole: by an event, or because it was asked after a
// call whose outcome is not known. Before the first full check it changes nothing.
type Observed struct{ Runtime *observed.Runtime }

func (f Observed) take(s *State, _ time.Time) {
	if s.runtime.read() && f.Runtime != nil {
		s.runtime.see(f.Runtime)
	}
}

// Checked is all that the runtime has of the pod, by a full check that began at that time.
type Checked struct {
	Runtime *observed.Runtime
	Began   time.Time
}

func (f Checked) take(s *State, _ time.Time) {
	if f.Runtime != nil {
		s.runtime.check(f.Runtime, f.Began)
	}
}

// Removed says that the runtime no longer has a sandbox or a container. Unowned says that it did not say whose that
// was.
type Removed struct {
	ID      string
	Unowned bool `json:",omitempty"`
}

func (f Removed) take(s *State, _ time.Time) {
	switch {
	case !s.runtime.read():
		return // the first full check decides
	case f.Unowned:
		s.runtime.lose(f.ID)
	default:
		s.runtime.remove(f.ID)
	}
}

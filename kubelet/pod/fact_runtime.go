package pod

import "time"

// Observed is what the runtime has of the pod, in part or as a whole: by an event, or because it was asked after a
// call whose outcome is not known. Before the first full check it changes nothing.
type Observed struct{ Runtime *Runtime }

func (f Observed) take(s *State, _ time.Time) {
	if s.runtime != nil && f.Runtime != nil {
		s.runtime = s.runtime.Merge(withoutRemoved(s, f.Runtime))
	}
}

// Checked is all that the runtime has of the pod, by a full check that began at that time.
type Checked struct {
	Runtime *Runtime
	Began   time.Time
}

func (f Checked) take(s *State, _ time.Time) {
	if f.Runtime != nil {
		s.runtime = s.runtime.Checked(withoutRemoved(s, f.Runtime), f.Began)
	}
}

// Removed says that the runtime no longer has a sandbox or a container. Unowned says that it did not say whose that
// was.
type Removed struct {
	ID      string
	Unowned bool `json:",omitempty"`
}

func (f Removed) take(s *State, _ time.Time) {
	if s.runtime == nil {
		return // the first full check decides
	}
	if !f.Unowned {
		s.removed[f.ID] = true
	}
	s.runtime = s.runtime.Without(f.ID)
}

// withoutRemoved returns r without what is gone for good: an older answer of the runtime may still have it.
func withoutRemoved(s *State, r *Runtime) *Runtime {
	for id := range s.removed {
		r = r.Without(id)
	}
	return r
}

// merge adds one object to what the runtime has.
func merge(s *State, update *Runtime) { s.runtime = s.runtime.Merge(withoutRemoved(s, update)) }

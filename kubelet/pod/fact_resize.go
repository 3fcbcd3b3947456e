package pod

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ResizeStep is what the node has to do next about the resources of a pod.
type ResizeStep int

// The steps. Each ends with the fact that is named beside it.
const (
	NoResizeStep   ResizeStep = iota
	ReadResizeNote            // Recalled: find what an earlier kubelet had given the pod
	KeepRoom                  // ResizeSettled: the pod is content with what it has
	AskRoom                   // ResizeAgreed or ResizeRefused: the pod wants other resources than it has
	DropResize                // ResizeSettled: the pod ends, or was not admitted
)

// ResizeStep returns what is to be done next about the resources of the pod.
func (s *State) ResizeStep() ResizeStep {
	if s.pod == nil || s.runtime == nil || s.static {
		return NoResizeStep
	}

	r := &s.resize
	switch {
	case r.Allocated == nil || !s.noted && !s.admitted:
		return ReadResizeNote
	case s.settled:
		return NoResizeStep
	case resizeBarred(s):
		if r.Pending != nil {
			return DropResize
		}
		return NoResizeStep
	case r.Allocated.Same(s.source):
		return KeepRoom
	case s.sourcesReady:
		return AskRoom
	}
	return NoResizeStep
}

// resizeBarred reports whether the pod gets no other resources: it ends, or was not admitted.
func resizeBarred(s *State) bool {
	return !s.admitted || !s.stopSince.IsZero() || s.stop != nil || s.gone || s.source.DeletionTimestamp != nil
}

// Wanted returns the pod as its source has it, with the resources that it asks for; nil for an orphan.
func (s *State) Wanted() *v1.Pod { return s.source }

// ResizeWaits returns why a resize that the pod asks for waits, v1.PodReasonDeferred or v1.PodReasonInfeasible; "" if
// none waits.
func ResizeWaits(s *State) string {
	if s.resize.Pending == nil {
		return ""
	}
	return s.resize.Pending.Reason
}

// Note returns the progress of the resize for the note that the next kubelet reads. It has only containers that still
// exist.
func (s *State) Note() Resize { return surviving(s, s.resize) }

// AgreedNote returns the note as it will be once the node has agreed to what the pod asks for.
func (s *State) AgreedNote() Resize { return surviving(s, s.agreed()) }

func surviving(s *State, r Resize) Resize {
	r.Actuated = maps.Clone(r.Actuated)
	maps.DeleteFunc(r.Actuated, func(id string, _ v1.ResourceRequirements) bool {
		_, ok := s.runtime.Find(id)
		return !ok
	})
	return r
}

func (s *State) agreed() Resize {
	r, now := s.resize, ResourcesOf(s.source)
	r.Allocated, r.Generation, r.Open, r.Pending = &now, s.source.Generation, true, nil
	return r
}

// Recalled is the note of an earlier kubelet about the pod's resources; Note is nil if there is none. Then the pod has
// what its running containers were made with, and what it asks for where that is not known.
type Recalled struct{ Note *Resize }

// take gives the pod the resources of the note. A pod that was never resized has none. Then its running containers say
// what they were made with, because the spec may have changed while no kubelet ran.
func (f Recalled) take(s *State, _ time.Time) {
	if s.ResizeStep() != ReadResizeNote {
		return
	}

	s.resize = Resize{}
	if f.Note != nil {
		s.resize = *f.Note
	}
	if s.resize.Allocated == nil {
		have := ResourcesOf(s.source)
		for name := range have.Containers {
			if c, ok := s.runtime.Latest(name); ok && c.MadeWith != nil && c.State == Running {
				have.Containers[name] = *c.MadeWith
			}
		}
		s.resize = Resize{Allocated: &have, Generation: s.source.Generation}
	}
	s.noted = true
	s.pod = s.resize.Allocated.Apply(s.source)
}

// ResizeAgreed says that the pod gets the resources that it asks for, and that this was noted for a later kubelet.
type ResizeAgreed struct{}

func (ResizeAgreed) take(s *State, _ time.Time) {
	if s.ResizeStep() != AskRoom {
		return
	}
	s.resize = s.AgreedNote()
	delete(s.failures, ResizeKey)
	s.settled = true
	s.pod = s.resize.Allocated.Apply(s.source)
	tell(s, Event{Type: v1.EventTypeNormal, Reason: "ResizeStarted",
		Message: ResizeMessage("Pod resize started", s.source, s.source.Generation, "")})
}

// ResizeRefused says that the pod cannot have the resources that it asks for. Reason is v1.PodReasonDeferred or
// v1.PodReasonInfeasible.
type ResizeRefused struct {
	Reason  string
	Message string `json:"-"`
}

func (f ResizeRefused) take(s *State, _ time.Time) {
	if s.ResizeStep() != AskRoom {
		return
	}
	p := &Pending{Reason: f.Reason, Message: f.Message, Generation: s.source.Generation}
	if old := s.resize.Pending; old == nil || old.Reason != p.Reason || old.Generation != p.Generation {
		tell(s, Event{Type: v1.EventTypeWarning, Reason: "Resize" + p.Reason,
			Message: ResizeMessage("Pod resize "+p.Reason, s.source, p.Generation, p.Message)})
	}
	s.resize.Pending = p
}

// ResizeSettled says that the pod has what it asks for, or no longer gets anything else.
type ResizeSettled struct{}

func (ResizeSettled) take(s *State, _ time.Time) {
	switch s.ResizeStep() {
	case KeepRoom:
		s.settled = true
	case DropResize:
	default:
		return
	}
	s.resize.Pending = nil
}

// Resized says what came of a ResizePod action. Actuated has, by container id, what the runtime was told. Message is
// the error if it failed.
type Resized struct {
	Resources Resources // of the pod that the action was planned for
	Actuated  map[string]v1.ResourceRequirements
	Failed    bool   `json:",omitempty"`
	Message   string `json:"-"`
}

// take ends the resize, unless the pod has asked for other resources since the action was planned: then Open stays
// set, and the next plan has another ResizePod. What the runtime was told is kept after a failure too, as some
// containers may have changed.
func (f Resized) take(s *State, now time.Time) {
	if !s.end(ResizeKey) {
		return
	}

	actuated := maps.Clone(s.resize.Actuated)
	if actuated == nil {
		actuated = map[string]v1.ResourceRequirements{}
	}
	maps.Copy(actuated, f.Actuated)
	s.resize.Actuated = actuated
	s.resize = s.Note()

	if f.Failed {
		s.fail(Action{Kind: ResizePod, Key: ResizeKey}, v1.PodReasonError, f.Message, now)
		return
	}
	delete(s.failures, ResizeKey)
	if s.resize.Allocated != nil && s.resize.Allocated.Equal(f.Resources) {
		s.resize.Open = false
	}
}

package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
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
	if s.pod == nil || !s.runtime.read() || s.source.static {
		return NoResizeStep
	}

	r := &s.resize
	switch {
	case r.Allocated == nil || !r.noted && !s.admitted:
		return ReadResizeNote
	case r.settled:
		return NoResizeStep
	case resizeBarred(s):
		if r.Pending != nil {
			return DropResize
		}
		return NoResizeStep
	case r.Allocated.Same(s.source.pod):
		return KeepRoom
	case s.source.ready:
		return AskRoom
	}
	return NoResizeStep
}

// resizeBarred reports whether the pod gets no other resources: it ends, or was not admitted.
func resizeBarred(s *State) bool {
	return !s.admitted || s.ending.begun() || s.ending.stop != nil || s.source.gone ||
		s.source.pod.DeletionTimestamp != nil
}

// ResizeWaits returns why a resize that the pod asks for waits, v1.PodReasonDeferred or v1.PodReasonInfeasible; "" if
// none waits.
func ResizeWaits(s *State) string {
	if s.resize.Pending == nil {
		return ""
	}
	return s.resize.Pending.Reason
}

// Recalled is the note of an earlier kubelet about the pod's resources; Note is nil if there is none. Then the pod has
// what its running containers were made with, and what it asks for where that is not known.
type Recalled struct{ Note *Resize }

func (f Recalled) take(s *State, _ time.Time) {
	if s.ResizeStep() == ReadResizeNote {
		s.resize.recall(f.Note, s.source.pod, s.runtime.Runtime)
		s.allocate()
	}
}

// ResizeAgreed says that the pod gets the resources that it asks for, and that this was noted for a later kubelet.
type ResizeAgreed struct{}

func (ResizeAgreed) take(s *State, _ time.Time) {
	if s.ResizeStep() != AskRoom {
		return
	}
	s.resize.agree(s.AgreedNote())
	s.tasks.succeed(ResizeKey)
	s.allocate()
	s.tell(Event{Type: v1.EventTypeNormal, Reason: "ResizeStarted",
		Message: resizeMessage("Pod resize started", s.source.pod, s.source.pod.Generation, "")})
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
	p := &Pending{Reason: f.Reason, Message: f.Message, Generation: s.source.pod.Generation}
	if !p.same(s.resize.Pending) {
		s.tell(Event{Type: v1.EventTypeWarning, Reason: "Resize" + p.Reason,
			Message: resizeMessage("Pod resize "+p.Reason, s.source.pod, p.Generation, p.Message)})
	}
	s.resize.Pending = p
}

// ResizeSettled says that the pod has what it asks for, or no longer gets anything else.
type ResizeSettled struct{}

func (ResizeSettled) take(s *State, _ time.Time) {
	switch s.ResizeStep() {
	case KeepRoom:
		s.resize.keep()
	case DropResize:
		s.resize.Pending = nil
	}
}

// Resized says what came of a ResizePod action. Actuated has, by container id, what the runtime was told. Message is
// the error if it failed.
type Resized struct {
	Resources desired.Resources // of the pod that the action was planned for
	Actuated  map[string]v1.ResourceRequirements
	Failed    bool   `json:",omitempty"`
	Message   string `json:"-"`
}

// take ends the resize, unless the pod has asked for other resources since the action was planned: then Open stays
// set, and the next plan has another ResizePod. What the runtime was told is kept after a failure too, as some
// containers may have changed.
func (f Resized) take(s *State, now time.Time) {
	if !s.tasks.end(ResizeKey) {
		return
	}

	s.resize.told(f.Actuated)
	s.resize.Resize = s.Note()

	if f.Failed {
		s.tasks.fail(Action{Kind: ResizePod, Key: ResizeKey}, v1.PodReasonError, f.Message, now)
		return
	}
	s.tasks.succeed(ResizeKey)
	if s.resize.Allocated != nil && s.resize.Allocated.Equal(f.Resources) {
		s.resize.Open = false
	}
}

package pod

import (
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Desired is a new version of the pod from its source.
type Desired struct {
	Pod *v1.Pod
	// Static says that the source is a file or a web address.
	Static bool
}

func (f Desired) take(s *State, _ time.Time) {
	if f.Static && s.pod != nil && s.gone {
		return // it ends first; its successor is made when it has
	}

	s.static = f.Static
	if !f.Static {
		s.gone = false
	}
	s.setSource(f.Pod)
}

// SourceGone says that the source no longer has the pod. Pod is its last version, or nil if that is the one that is
// known.
type SourceGone struct{ Pod *v1.Pod }

func (f SourceGone) take(s *State, _ time.Time) {
	s.gone = true
	if f.Pod != nil {
		s.setSource(f.Pod)
	}
}

// SourcesReady says that all pods that should run are known. A pod that no source has is an orphan from then on, and
// ends.
type SourcesReady struct{}

func (SourcesReady) take(s *State, _ time.Time) { s.sourcesReady = true }

// Admitted says that the node agreed to run the pod.
type Admitted struct{}

func (Admitted) take(s *State, _ time.Time) {
	if s.NeedsAdmission() {
		s.admitted = true
	}
}

// Refused says that the node cannot run the pod. Reason and Message are in upstream's words.
type Refused struct {
	Reason  string
	Message string `json:"-"`
}

func (f Refused) take(s *State, _ time.Time) {
	if !s.NeedsAdmission() {
		return
	}
	s.stop = &Stop{Reason: f.Reason, Message: "Pod was rejected: " + f.Message, Phase: v1.PodFailed, Rejected: true}
	tell(s, Event{Type: v1.EventTypeWarning, Reason: f.Reason, Message: f.Message})
}

// NodeShutdown says that the node is about to shut down. A pod that runs is stopped and its phase becomes Failed.
// Grace bounds the time that its containers get.
type NodeShutdown struct{ Grace time.Duration }

// shutdownMessage is upstream's (pkg/kubelet/nodeshutdown), like the reasons below.
const shutdownMessage = "Pod was terminated in response to imminent node shutdown."

func (f NodeShutdown) take(s *State, _ time.Time) {
	if s.ends() || s.Stopping() || s.pod.DeletionTimestamp != nil {
		return // it ends, or has ended, for another reason
	}
	grace := f.Grace
	s.stop = &Stop{Reason: "Terminated", Message: shutdownMessage, Phase: v1.PodFailed, Grace: &grace,
		Conditions: disruption(shutdownMessage)}
}

// ends reports whether the pod has ended, is gone from its source, or was told by the node to end.
func (s *State) ends() bool {
	p := s.pod
	return p == nil || s.gone || s.stop != nil || terminal(p.Status.Phase) || s.last != nil && terminal(s.last.Phase)
}

// disruption returns the condition of a pod that the node ended for reasons that are not the pod's own.
func disruption(message string) []v1.PodCondition {
	return []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
		Reason: v1.PodReasonTerminationByKubelet, Message: message}}
}

// Evicted says that the pod has to make room: it is stopped, and its phase becomes Failed unless ByContainers says
// otherwise. A pod that is being deleted gets less time than before. Reason and texts are in upstream's words.
type Evicted struct {
	Reason  string
	Message string `json:"-"`
	// Disruption is the text of the condition DisruptionTarget; without one the pod does not get the condition.
	Disruption string `json:"-"`
	// Grace bounds the time that the containers get; nil leaves them the pod's own.
	Grace *time.Duration `json:",omitempty"`
	// ByContainers has the containers' exit codes decide between the phases Succeeded and Failed, as of a pod that is
	// deleted. Upstream's tests want that of a pod that is preempted (test/e2e_node/critical_pod_test.go of 1.36.3).
	ByContainers bool `json:",omitempty"`
	// Annotations of the event.
	Annotations map[string]string `json:"-"`
}

func (f Evicted) take(s *State, _ time.Time) {
	if s.ends() {
		return
	}
	s.stop = &Stop{Reason: f.Reason, Message: f.Message, Phase: v1.PodFailed, Grace: f.Grace}
	if f.ByContainers {
		s.stop.Phase = ""
	}
	if f.Disruption != "" {
		s.stop.Conditions = disruption(f.Disruption)
	}
	tell(s, Event{Type: v1.EventTypeWarning, Reason: f.Reason, Message: f.Message, Annotations: f.Annotations})
}

// Reclaimed says that the node needs the disk space of the containers of this pod. If the pod has ended, they are
// removed although it was not deleted yet; their logs go with them.
type Reclaimed struct{}

func (Reclaimed) take(s *State, _ time.Time) {
	if s.cleanup.done {
		s.cleanup.reclaimed = true
	}
}

// Stripped says that passes over a pod that must end panic. The pod is reduced to what is needed to end it.
type Stripped struct{}

func (Stripped) take(s *State, _ time.Time) {
	p := s.pod
	if p == nil || !s.gone && p.DeletionTimestamp == nil {
		return
	}

	grace := int64(1)
	bare := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID,
		Generation:      p.Generation,
		ResourceVersion: p.ResourceVersion, DeletionTimestamp: p.DeletionTimestamp, DeletionGracePeriodSeconds: &grace}}
	bare.Status.Phase, bare.Status.StartTime = v1.PodFailed, p.Status.StartTime
	s.last, s.stop = nil, nil
	s.setSource(bare)
}

// setSource takes a version of the pod. One that was admitted keeps the resources that it has until the node has
// agreed to others; what one that was not admitted gets is found out by the note of an earlier kubelet.
func (s *State) setSource(p *v1.Pod) {
	before := s.pod
	s.source, s.pod = p, p
	s.noted, s.settled = false, false
	if s.admitted && !s.static && s.resize.Allocated != nil {
		s.pod = s.resize.Allocated.Apply(p)
	}
	notice(s, before)
}

// notice compares the desired pod with its earlier version. If it changed, an image that is no longer asked for is
// forgotten, and containers that failed are tried again at once.
func notice(s *State, before *v1.Pod) {
	if before == nil || before == s.pod {
		return
	}
	if before.Generation == s.pod.Generation && maps.Equal(before.Labels, s.pod.Labels) &&
		maps.Equal(before.Annotations, s.pod.Annotations) {
		return
	}

	for name := range s.images {
		if strings.HasPrefix(name, "/") {
			continue // of a volume, which cannot change
		}
		if was, is := FindContainer(before, name), FindContainer(s.pod, name); was == nil || is == nil ||
			was.Image != is.Image {
			delete(s.images, name)
		}
	}

	for key, f := range s.failures {
		if FindContainer(s.pod, key) != nil {
			again := *f
			again.RetryAt = time.Time{}
			s.failures[key] = &again
		}
	}
}

// tell adds an event to the next plan.
func tell(s *State, e Event) { s.events = append(s.events, e) }

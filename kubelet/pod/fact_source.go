package pod

import (
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
	if f.Static && s.pod != nil && s.source.gone {
		return // it ends first; its successor is made when it has
	}

	s.source.static = f.Static
	if !f.Static {
		s.source.gone = false
	}
	s.renew(f.Pod)
}

// SourceGone says that the source no longer has the pod. Pod is its last version, or nil if that is the one that is
// known.
type SourceGone struct{ Pod *v1.Pod }

func (f SourceGone) take(s *State, _ time.Time) {
	s.source.gone = true
	if f.Pod != nil {
		s.renew(f.Pod)
	}
}

// SourcesReady says that all pods that should run are known. A pod that no source has is an orphan from then on, and
// ends.
type SourcesReady struct{}

func (SourcesReady) take(s *State, _ time.Time) { s.source.ready = true }

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
	s.ending.stop = &Stop{Reason: f.Reason, Message: "Pod was rejected: " + f.Message, Phase: v1.PodFailed,
		Rejected: true}
	s.tell(Event{Type: v1.EventTypeWarning, Reason: f.Reason, Message: f.Message})
}

// NodeShutdown says that the node is about to shut down. A pod that runs is stopped and its phase becomes Failed.
// Grace bounds the time that its containers get.
type NodeShutdown struct{ Grace time.Duration }

// shutdownMessage is upstream's (pkg/kubelet/nodeshutdown), like the reasons below.
const shutdownMessage = "Pod was terminated in response to imminent node shutdown."

func (f NodeShutdown) take(s *State, _ time.Time) {
	if s.over() || s.Stopping() || s.pod.DeletionTimestamp != nil {
		return // it ends, or has ended, for another reason
	}
	grace := f.Grace
	s.ending.stop = &Stop{Reason: "Terminated", Message: shutdownMessage, Phase: v1.PodFailed, Grace: &grace,
		Conditions: disruption(shutdownMessage)}
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
	if s.over() {
		return
	}
	s.ending.stop = &Stop{Reason: f.Reason, Message: f.Message, Phase: v1.PodFailed, Grace: f.Grace}
	if f.ByContainers {
		s.ending.stop.Phase = ""
	}
	if f.Disruption != "" {
		s.ending.stop.Conditions = disruption(f.Disruption)
	}
	s.tell(Event{Type: v1.EventTypeWarning, Reason: f.Reason, Message: f.Message, Annotations: f.Annotations})
}

// Reclaimed says that the node needs the disk space of the containers of this pod. If the pod has ended, they are
// removed although it was not deleted yet; their logs go with them.
type Reclaimed struct{}

func (Reclaimed) take(s *State, _ time.Time) { s.ending.reclaim() }

// Stripped says that passes over a pod that must end panic. The pod is reduced to what is needed to end it.
type Stripped struct{}

func (Stripped) take(s *State, _ time.Time) {
	p := s.pod
	if p == nil || !s.source.gone && p.DeletionTimestamp == nil {
		return
	}

	grace := int64(1)
	bare := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID,
		Generation:      p.Generation,
		ResourceVersion: p.ResourceVersion, DeletionTimestamp: p.DeletionTimestamp, DeletionGracePeriodSeconds: &grace}}
	bare.Status.Phase, bare.Status.StartTime = v1.PodFailed, p.Status.StartTime
	s.last, s.ending.stop = nil, nil
	s.renew(bare)
}

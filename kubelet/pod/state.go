package pod

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// State is all that the node knows about one pod. Only Take changes it; Reconcile and the methods below read it. The
// objects that it hands out must not be changed. It is not safe for concurrent use: one goroutine owns it.
//
// Each part keeps rules of its own, which its type says; what is here is what one part means for another.
type State struct {
	source sourceState
	// pod is the pod as its source has it, with the resources that the node agreed to. Nil for an orphan.
	pod *v1.Pod
	// admitted is set once the node agreed to run the pod.
	admitted bool
	resize   resizeState

	runtime  runtimeObjects
	volumes  volumeState
	images   imageStates
	probes   probeResults
	hooks    hookStates
	tasks    taskState
	backoffs map[string]Backoff // by container name
	ending   endState

	// last is the latest published status; nil before the first.
	last *v1.PodStatus
	// events wait to be sent with the next plan. Each is sent once.
	events []Event
}

// sourceState is what the sources of pods say of one pod.
type sourceState struct {
	// pod is the latest version. Nil for a pod that only the runtime knows (an orphan).
	pod *v1.Pod
	// static pods come from files; their status goes to a mirror.
	static bool
	// gone is set when the source no longer has the pod.
	gone bool
	// ready is set once all pods that should run are known: a pod that no source has is an orphan from then on.
	ready bool
}

// NewState returns the state of a pod of which nothing is known yet.
func NewState() *State {
	return &State{
		runtime: runtimeObjects{removed: map[string]bool{}, stopped: map[string]bool{}},
		images:  imageStates{}, probes: probeResults{}, hooks: hookStates{},
		tasks:    taskState{inFlight: map[string]time.Time{}, failures: map[string]*Failure{}},
		backoffs: map[string]Backoff{},
	}
}

// Fact is one thing that was learned about a pod, or done for it. The types of this package that implement it are all
// that there are; each says in its comment when it is true, and doc.go has the table of what follows from it.
//
// Facts are data: they can be written to a log and read back (see Entry). Texts for people, such as the messages of
// errors, are not part of the log.
type Fact interface {
	// take changes s. A fact that does not fit the state changes nothing.
	take(s *State, now time.Time)
}

// Take changes the state by what was learned at that time. It is the only way to change one. A fact that does not fit,
// for example the result of a probe of a container that was replaced since, changes nothing.
func (s *State) Take(f Fact, now time.Time) { f.take(s, now) }

// Pod returns the desired pod with the resources that the node agreed to, or nil for an orphan.
func (s *State) Pod() *v1.Pod { return s.pod }

// Wanted returns the pod as its source has it, with the resources that it asks for; nil for an orphan.
func (s *State) Wanted() *v1.Pod { return s.source.pod }

// Static reports whether the pod comes from a file or a web address.
func (s *State) Static() bool { return s.source.static }

// Gone reports whether the source no longer has the pod.
func (s *State) Gone() bool { return s.source.gone }

// Admitted reports whether the node agreed to run the pod.
func (s *State) Admitted() bool { return s.admitted }

// Runtime returns what the runtime knows about the pod, or nil if it was not read yet.
func (s *State) Runtime() *observed.Runtime { return s.runtime.Runtime }

// Last returns the latest published status, or nil.
func (s *State) Last() *v1.PodStatus { return s.last }

// Stopping reports whether the pod has begun to stop.
func (s *State) Stopping() bool { return s.ending.begun() }

// Image returns the image of a container, or under VolumeImage that of a volume; the zero Image if it is not there.
func (s *State) Image(name string) Image { return s.images[name] }

// ProbeTarget returns the id of the container instance that the latest probe results are about; empty for none.
func (s *State) ProbeTarget(container string) string { return s.probes[container].ContainerID }

// Hooked reports whether that container instance has a postStart hook that is not done.
func (s *State) Hooked(container, id string) bool { return s.hooks.open(container, id) }

// VolumeFailures returns the number of failures in a row to prepare the volumes.
func (s *State) VolumeFailures() int { return s.volumes.failureCount() }

// Undecided reports whether it is too early to decide about the pod: no source has it, but not all sources were read.
func (s *State) Undecided() bool { return s.pod == nil && !s.source.ready }

// NeedsAdmission reports whether the node has to admit or refuse the pod.
func (s *State) NeedsAdmission() bool {
	return !s.admitted && s.ending.stop == nil && s.pod != nil && s.runtime.read() && !s.source.gone &&
		s.pod.DeletionTimestamp == nil &&
		!terminal(s.pod.Status.Phase)
}

// starting reports whether a container is being started, or its postStart hook runs or is about to.
func (s *State) starting() bool { return s.tasks.starting() || len(s.waitingHooks()) > 0 }

// creating reports whether an action is in flight after which a container could run.
func (s *State) creating() bool { return s.tasks.busy(SandboxKey) || s.starting() }

// SettingUp reports whether volumes, a sandbox or a container are being made.
func (s *State) SettingUp() bool { return s.creating() || s.tasks.busy(VolumesKey) }

// waitingHooks returns the running containers whose postStart hook was not started yet, in no order.
func (s *State) waitingHooks() []string { return s.hooks.waiting(s.runtime.Runtime, s.tasks) }

// over reports whether the pod has ended, is gone from its source, or was told by the node to end.
func (s *State) over() bool {
	p := s.pod
	return p == nil || s.source.gone || s.ending.stop != nil || terminal(p.Status.Phase) ||
		s.last != nil && terminal(s.last.Phase)
}

// Resizing reports whether the pod or a container does not have yet what is allocated.
func (s *State) Resizing() bool {
	if s.pod == nil || !s.runtime.read() || s.resize.Allocated == nil {
		return false
	}
	list, _ := s.resize.updates(s.pod, s.runtime.Runtime)
	return s.resize.Open || len(list) > 0
}

// Note returns the progress of the resize for the note that the next kubelet reads. It has only containers that still
// exist.
func (s *State) Note() Resize { return s.resize.surviving(s.runtime.Runtime) }

// AgreedNote returns the note as it will be once the node has agreed to what the pod asks for.
func (s *State) AgreedNote() Resize {
	return s.resize.granted(s.source.pod).surviving(s.runtime.Runtime)
}

// renew takes a version of the pod. One that was admitted keeps the resources that it has until the node has agreed to
// others; what one that was not admitted gets is found out by the note of an earlier kubelet. If the pod changed, an
// image that is no longer asked for is forgotten, and containers that failed are tried again at once.
func (s *State) renew(p *v1.Pod) {
	before := s.pod
	s.source.pod, s.pod = p, p
	s.resize.renew()
	if s.admitted && !s.source.static && s.resize.Allocated != nil {
		s.allocate()
	}
	if before == nil || before == s.pod || sameVersion(before, s.pod) {
		return
	}

	s.images.keepWanted(before, s.pod)
	for c := range desired.All(s.pod) {
		s.tasks.retryNow(c.Name)
	}
}

func sameVersion(a, b *v1.Pod) bool {
	return a.Generation == b.Generation && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// allocate gives the pod the resources that the node has agreed to.
func (s *State) allocate() { s.pod = s.resize.Allocated.Apply(s.source.pod) }

// tell adds an event to the next plan.
func (s *State) tell(e Event) { s.events = append(s.events, e) }

package pod

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Probe holds the latest probe results of one container instance. A nil result is not known yet.
type Probe struct {
	ContainerID          string
	Started, Ready, Live *bool
	// Message says why Live or Started is false.
	Message string
}

// PostStart is the progress of the postStart hook of one container instance. Until the hook is done, the container
// does not count as started. If the hook failed, the container is stopped.
type PostStart struct {
	ContainerID  string
	Done, Failed bool
}

// Failure is why the last attempt at something failed, and when to try again. Count is the number of failures in a row.
type Failure struct {
	Reason, Message string
	RetryAt         time.Time
	Count           int
}

// Image is the outcome of the last attempt to make an image present. Ref is the runtime's name for it; empty if it is
// missing.
type Image struct {
	Ref     string
	User    ImageUser
	Failure *Failure
}

// ImageUser is the user that an image names for its process: by number or by name; zero for none.
type ImageUser struct {
	UID  *int64 `json:",omitempty"`
	Name string `json:",omitempty"`
}

// Stop is a decision of the node to end a pod, for example because it was refused.
type Stop struct {
	Reason, Message string
	Phase           v1.PodPhase
	// Grace bounds the time that containers get; nil means the pod's own.
	Grace *time.Duration
	// Rejected marks a pod that was never admitted: nothing of it runs.
	Rejected bool
	// Conditions are added to the status together with the terminal phase.
	Conditions []v1.PodCondition
}

// State is all that the node knows about one pod. Only Take changes it; Reconcile and the methods below read it. The
// objects that it hands out must not be changed. It is not safe for concurrent use: one goroutine owns it.
type State struct {
	// source is the pod as its source has it; pod is the same with the resources that the node agreed to. Both are nil
	// for a pod that only the runtime knows (an orphan).
	source, pod *v1.Pod
	// static pods come from files; their status goes to a mirror.
	static bool
	// gone is set when the source no longer has the pod.
	gone bool
	// sourcesReady is set once all pods that should run are known: a pod that no source has is an orphan from then on.
	sourcesReady bool

	// admitted is set once the node agreed to run the pod; stop is why it must end for a reason of the node's own.
	admitted bool
	stop     *Stop
	// stopSince is when the pod began to stop; zero while it runs.
	stopSince time.Time

	// runtime is nil until the runtime was read once. Nil is not "nothing runs".
	runtime *Runtime
	// removed are ids of objects that were removed; late events may still name them.
	removed map[string]bool
	// stopped are ids of sandboxes whose network this kubelet has taken down.
	stopped map[string]bool
	// last is the latest published status; nil before the first.
	last *v1.PodStatus

	volumesReady  bool
	volumeFailure *Failure
	images        map[string]Image    // by container name, or VolumeImage
	failures      map[string]*Failure // by container name, or a key below
	backoffs      map[string]Backoff  // by container name
	probes        map[string]Probe    // by container name
	// postStart holds, by container name, how far the hook of the newest instance is.
	postStart map[string]PostStart
	// inFlight holds the keys of the actions that run, with the deadline of stops.
	inFlight map[string]time.Time
	// cleanup is how far what is left of a pod that has ended is removed.
	cleanup cleanup

	// resize is the progress of a change of the resources. noted is set once the note of an earlier kubelet was read
	// for this version of the pod, settled once the node has answered the request of this version.
	resize         Resize
	noted, settled bool

	// events wait to be sent with the next plan. Each is sent once.
	events []Event
}

// cleanup says what is gone of a pod that has ended. done is set when volumes, folders and the cgroup are gone;
// reclaimed when the node needs the space of the containers too.
type cleanup struct{ done, reclaimed bool }

// NewState returns the state of a pod of which nothing is known yet.
func NewState() *State {
	return &State{removed: map[string]bool{}, stopped: map[string]bool{}, images: map[string]Image{},
		failures: map[string]*Failure{}, backoffs: map[string]Backoff{},
		probes: map[string]Probe{}, postStart: map[string]PostStart{}, inFlight: map[string]time.Time{}}
}

// Pod returns the desired pod with the resources that the node agreed to, or nil for an orphan.
func (s *State) Pod() *v1.Pod { return s.pod }

// Static reports whether the pod comes from a file or a web address.
func (s *State) Static() bool { return s.static }

// Gone reports whether the source no longer has the pod.
func (s *State) Gone() bool { return s.gone }

// Admitted reports whether the node agreed to run the pod.
func (s *State) Admitted() bool { return s.admitted }

// Runtime returns what the runtime knows about the pod, or nil if it was not read yet.
func (s *State) Runtime() *Runtime { return s.runtime }

// Last returns the latest published status, or nil.
func (s *State) Last() *v1.PodStatus { return s.last }

// Stopping reports whether the pod has begun to stop.
func (s *State) Stopping() bool { return !s.stopSince.IsZero() }

// Image returns the image of a container, or under VolumeImage that of a volume; the zero Image if it is not there.
func (s *State) Image(name string) Image { return s.images[name] }

// ProbeTarget returns the id of the container instance that the latest probe results are about; empty for none.
func (s *State) ProbeTarget(container string) string { return s.probes[container].ContainerID }

// Hooked reports whether that container instance has a postStart hook that is not done.
func (s *State) Hooked(container, id string) bool {
	h := s.postStart[container]
	return h.ContainerID == id && !h.Done
}

// Undecided reports whether it is too early to decide about the pod: no source has it, but not all sources were read.
func (s *State) Undecided() bool { return s.pod == nil && !s.sourcesReady }

// NeedsAdmission reports whether the node has to admit or refuse the pod.
func (s *State) NeedsAdmission() bool {
	return !s.admitted && s.stop == nil && s.pod != nil && s.runtime != nil && !s.gone &&
		s.pod.DeletionTimestamp == nil &&
		!terminal(s.pod.Status.Phase)
}

// Node is what the node contributes to the decision about a pod.
type Node struct {
	HostIPs []string
	// RuntimeName prefixes container ids: "containerd".
	RuntimeName string
	// NetworkNotReady is why pods cannot get a network now; empty if they can.
	NetworkNotReady string `json:",omitzero"`
	// RecursiveReadOnly are the runtime's handlers that can make mounts below a read-only mount read-only.
	RecursiveReadOnly []string `json:",omitzero"`
	// InitialBackoff and MaxBackoff bound the restart back-off; zero means 10 s and 300 s.
	InitialBackoff, MaxBackoff time.Duration `json:",omitzero"`
}

func (s *State) busy(key string) bool { _, ok := s.inFlight[key]; return ok }

// creating reports whether an action is in flight after which a container could run.
func (s *State) creating() bool { return s.busy(SandboxKey) || s.starting() }

// starting reports whether a container is being started, or its postStart hook runs or is about to.
func (s *State) starting() bool {
	for key := range s.inFlight {
		if strings.HasPrefix(key, "start/") {
			return true
		}
	}
	return len(waitingHooks(s)) > 0
}

// SettingUp reports whether volumes, a sandbox or a container are being made.
func (s *State) SettingUp() bool { return s.creating() || s.busy(VolumesKey) }

// waitingHooks returns the running containers whose postStart hook was not started yet, in no order.
func waitingHooks(s *State) (names []string) {
	for name, hook := range s.postStart {
		c, ok := s.runtime.Find(hook.ContainerID)
		if ok && c.State == Running && !hook.Done && !s.busy(hookKey(name)) {
			names = append(names, name)
		}
	}
	return names
}

// shown returns the instances of a container that its status describes: the newest one that has started and whose
// postStart hook is done, and the one before it. In a pod that ends, hooks do not count.
func shown(s *State, name string) (newest, previous *Container) {
	if s.runtime == nil {
		return nil, nil
	}
	hook := s.postStart[name]
	ending := s.pod == nil || s.gone || s.stop != nil || !s.stopSince.IsZero() || s.pod.DeletionTimestamp != nil
	for i := range s.runtime.Containers {
		c := &s.runtime.Containers[i]
		hooked := c.State == Running && hook.ContainerID == c.ID && !hook.Done && !ending
		if c.Name != name || c.State == Created || hooked {
			continue
		}
		switch {
		case newest == nil || later(c, newest):
			newest, previous = c, newest
		case previous == nil || later(c, previous):
			previous = c
		}
	}
	return newest, previous
}

// VolumeFailures returns the number of failures in a row to prepare the volumes.
func (s *State) VolumeFailures() int {
	if s.volumeFailure == nil {
		return 0
	}
	return s.volumeFailure.Count
}

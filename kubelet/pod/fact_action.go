package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// ActionStarted says that an action of a plan is under way. It ends by exactly one of the facts below, with its key.
type ActionStarted struct{ Action Action }

func (f ActionStarted) take(s *State, _ time.Time) {
	if a := f.Action; s.tasks.begin(a) && a.Backoff != nil {
		s.backoffs[a.Name] = *a.Backoff
	}
}

// ActionDropped says that there was nothing to do for an action: what it was about is no longer part of the pod.
type ActionDropped struct{ Key string }

func (f ActionDropped) take(s *State, _ time.Time) { s.tasks.end(f.Key) }

// TaskPanicked says that the task of an action ended with a panic, so that it could not say what came of it.
type TaskPanicked struct {
	Action  Action
	Message string `json:"-"`
}

// take treats a panic as a failure of the action, which is tried again after taskRetry. A postStart hook is not tried
// again: the panic counts as the hook's own failure, and its container is stopped.
func (f TaskPanicked) take(s *State, now time.Time) {
	a := f.Action
	if !s.tasks.end(a.Key) {
		return
	}

	switch a.Kind {
	case PrepareVolumes:
		s.volumes.panicked(f.Message, now)
	case EnsureImage:
		s.images[imageKey(a)] = Image{Failure: &Failure{Reason: "ErrImagePull", Message: f.Message,
			RetryAt: now.Add(taskRetry)}}
	case StartContainer:
		s.tasks.failAfter(taskRetry, a, "CreateContainerError", f.Message, now)
	case RunHook:
		HookFailed{Name: a.Name, ContainerID: a.ID, Message: f.Message}.settle(s, now)
	default:
		s.tasks.failAfter(taskRetry, a, "", f.Message, now)
	}
}

// VolumesPrepared says that all volumes can be mounted.
type VolumesPrepared struct{}

func (VolumesPrepared) take(s *State, _ time.Time) {
	if s.tasks.end(VolumesKey) {
		s.volumes.prepared()
	}
}

// VolumesFailed says that volumes could not be prepared. Cancelled is set if the pod no longer needed them.
type VolumesFailed struct {
	Message   string   `json:"-"`
	Failures  []string `json:"-"` // of the single volumes, as texts of events
	Cancelled bool     `json:",omitempty"`
}

func (f VolumesFailed) take(s *State, now time.Time) {
	if !s.tasks.end(VolumesKey) {
		return
	}

	if told := s.volumes.fail(f.Message, now); !told || f.Cancelled {
		return
	}
	for _, text := range f.Failures {
		s.tell(Event{Type: v1.EventTypeWarning, Reason: "FailedMount", Message: text})
	}
}

// SandboxMade is a new sandbox, with its network.
type SandboxMade struct{ Sandbox observed.Sandbox }

func (f SandboxMade) take(s *State, _ time.Time) {
	if s.tasks.end(SandboxKey) {
		s.tasks.succeed(SandboxKey)
		s.runtime.add(&observed.Runtime{Sandboxes: []observed.Sandbox{f.Sandbox}})
	}
}

// SandboxFailed says that no sandbox could be made. The runtime may have made a part of it.
type SandboxFailed struct {
	Message string `json:"-"`
}

func (f SandboxFailed) take(s *State, now time.Time) {
	if s.tasks.end(SandboxKey) {
		s.tasks.fail(Action{Kind: CreateSandbox, Key: SandboxKey}, "CreatePodSandboxError", f.Message, now)
	}
}

// ImageAsked is what an EnsureImage action asked for: the image of a container, or of a volume, by the name in the pod.
type ImageAsked struct {
	Container string `json:",omitempty"`
	Volume    string `json:",omitempty"`
	Image     string
}

// end reports whether the image was asked for and is still wanted.
func (x ImageAsked) end(s *State) bool {
	a := Action{Kind: EnsureImage, Name: x.Container, Volume: x.Volume}
	if !s.tasks.end(imageActionKey(imageKey(a))) {
		return false
	}
	name, _, ok := WantedImage(s.pod, a)
	return ok && name == x.Image
}

// ImagePresent says that an image is on the node.
type ImagePresent struct {
	ImageAsked
	Ref  string
	User ImageUser
}

func (f ImagePresent) take(s *State, _ time.Time) {
	if f.end(s) {
		s.images[imageKey(Action{Name: f.Container, Volume: f.Volume})] = Image{Ref: f.Ref, User: f.User}
	}
}

// ImageFailed says that an image is not on the node and could not be pulled. RetryAt is when the registry may be asked
// again.
type ImageFailed struct {
	ImageAsked
	Reason  string
	Message string `json:"-"`
	RetryAt time.Time
}

func (f ImageFailed) take(s *State, _ time.Time) {
	if f.end(s) {
		s.images[imageKey(Action{Name: f.Container, Volume: f.Volume})] = Image{
			Failure: &Failure{Reason: f.Reason, Message: f.Message, RetryAt: f.RetryAt}}
	}
}

// ContainerStarted is a container that was started. Hook says that it has a postStart hook, which is to run now.
type ContainerStarted struct {
	Container observed.Container
	Hook      bool `json:",omitempty"`
}

func (f ContainerStarted) take(s *State, _ time.Time) {
	name := f.Container.Name
	if !s.tasks.end(startKey(name)) {
		return
	}
	s.tasks.succeed(name)
	delete(s.images, name) // the next start asks again, as the pull policy says
	s.runtime.add(&observed.Runtime{Containers: []observed.Container{f.Container}})
	if f.Hook {
		s.hooks[name] = PostStart{ContainerID: f.Container.ID}
	}
}

// StartFailed says that a container could not be made, or not be started. Container is what was made of it; nil for
// nothing.
type StartFailed struct {
	Name, Reason string
	Message      string              `json:"-"`
	Container    *observed.Container `json:",omitempty"`
}

func (f StartFailed) take(s *State, now time.Time) {
	if !s.tasks.end(startKey(f.Name)) {
		return
	}
	s.tasks.fail(Action{Kind: StartContainer, Name: f.Name}, f.Reason, f.Message, now)
	delete(s.images, f.Name) // it may be gone: the next attempt checks
	if f.Container != nil {
		s.runtime.add(&observed.Runtime{Containers: []observed.Container{*f.Container}})
	}
}

// HookDone says that a postStart hook has succeeded, or that its container ended before it did.
type HookDone struct{ Name, ContainerID string }

func (f HookDone) take(s *State, _ time.Time) {
	if s.tasks.end(hookKey(f.Name)) {
		s.hooks.end(f.Name, f.ContainerID, false)
	}
}

// HookFailed says that a postStart hook has failed: its container has to end.
type HookFailed struct {
	Name, ContainerID string
	Message           string `json:"-"`
}

func (f HookFailed) take(s *State, now time.Time) {
	if s.tasks.end(hookKey(f.Name)) {
		f.settle(s, now)
	}
}

func (f HookFailed) settle(s *State, now time.Time) {
	s.hooks.end(f.Name, f.ContainerID, true)
	s.tasks.fail(Action{Kind: RunHook, Name: f.Name}, "PostStartHookError", f.Message, now)
}

// ContainerStopped says that the runtime has stopped a container. Container is how it ended; nil if the runtime does
// not say.
type ContainerStopped struct {
	Key, ID   string              // of the action
	Container *observed.Container `json:",omitempty"`
}

func (f ContainerStopped) take(s *State, _ time.Time) {
	if !s.tasks.end(f.Key) {
		return
	}
	s.tasks.succeed(f.Key)
	if f.Container != nil {
		s.runtime.see(&observed.Runtime{Containers: []observed.Container{*f.Container}})
	}
	if c, ok := s.runtime.Find(f.ID); ok && c.State == observed.Running { // the runtime no longer knows it
		s.runtime.lose(f.ID)
	}
}

// StopFailed says that a container could not be stopped.
type StopFailed struct {
	Key     string
	Message string `json:"-"`
}

func (f StopFailed) take(s *State, now time.Time) {
	if s.tasks.end(f.Key) {
		s.tasks.fail(Action{Kind: StopContainer, Key: f.Key}, "KillContainerError", f.Message, now)
	}
}

// SandboxStopped says that a sandbox has stopped and its network is gone.
type SandboxStopped struct{ ID string }

func (f SandboxStopped) take(s *State, _ time.Time) {
	if s.tasks.end(stopSandboxKey(f.ID)) {
		s.tasks.succeed(StopSandboxKey)
		s.runtime.down(f.ID)
	}
}

// SandboxStopFailed says that a sandbox could not be stopped.
type SandboxStopFailed struct {
	ID      string
	Message string `json:"-"`
}

func (f SandboxStopFailed) take(s *State, now time.Time) {
	if s.tasks.end(stopSandboxKey(f.ID)) {
		s.tasks.fail(Action{Kind: StopSandbox}, "KillPodSandboxError", f.Message, now)
	}
}

// RemoveDone says that a sandbox or a container was removed.
type RemoveDone struct{ ID string }

func (f RemoveDone) take(s *State, _ time.Time) {
	if s.tasks.end(removeKey(f.ID)) {
		s.tasks.succeed(RemoveKey)
		s.runtime.remove(f.ID)
	}
}

// RemoveFailed says that a sandbox or a container could not be removed.
type RemoveFailed struct {
	ID      string
	Message string `json:"-"`
}

func (f RemoveFailed) take(s *State, now time.Time) {
	if s.tasks.end(removeKey(f.ID)) {
		s.tasks.fail(Action{Kind: RemoveContainer}, "", f.Message, now)
	}
}

// CleanedUp says that the volumes and the cgroup of the pod are gone.
type CleanedUp struct{}

func (CleanedUp) take(s *State, _ time.Time) {
	if s.tasks.end(CleanupKey) {
		s.ending.cleaned = true
	}
}

// CleanupFailed says that a volume or the cgroup of the pod is still there.
type CleanupFailed struct {
	Message string `json:"-"`
}

func (f CleanupFailed) take(s *State, now time.Time) {
	if s.tasks.end(CleanupKey) {
		s.tasks.fail(Action{Kind: Cleanup, Key: CleanupKey}, "", f.Message, now)
	}
}

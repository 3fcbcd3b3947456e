package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// imageKey is the key of State.images that an EnsureImage action is about.
func imageKey(a Action) string {
	if a.Volume != "" {
		return VolumeImage(a.Volume)
	}
	return a.Name
}

// ActionStarted says that an action of a plan is under way. It ends by exactly one of the facts below, with its key.
type ActionStarted struct{ Action Action }

func (f ActionStarted) take(s *State, _ time.Time) {
	a := f.Action
	if s.busy(a.Key) {
		return
	}
	s.inFlight[a.Key] = a.Deadline
	if a.Backoff != nil {
		s.backoffs[a.Name] = *a.Backoff
	}
}

// end takes an action out of those that run. It reports false if it does not run: then nothing can have come of it.
func (s *State) end(key string) bool {
	if !s.busy(key) {
		return false
	}
	delete(s.inFlight, key)
	return true
}

// ActionDropped says that there was nothing to do for an action: what it was about is no longer part of the pod.
type ActionDropped struct{ Key string }

func (f ActionDropped) take(s *State, _ time.Time) { s.end(f.Key) }

// TaskPanicked says that the task of an action ended with a panic, so that it could not say what came of it.
type TaskPanicked struct {
	Action  Action
	Message string `json:"-"`
}

// take treats a panic as a failure of the action, which is tried again after taskRetry. A postStart hook is not tried
// again: the panic counts as the hook's own failure, and its container is stopped.
func (f TaskPanicked) take(s *State, now time.Time) {
	a := f.Action
	if !s.end(a.Key) {
		return
	}

	at := now.Add(taskRetry)
	switch a.Kind {
	case PrepareVolumes:
		s.volumeFailure = &Failure{Message: f.Message, RetryAt: at}
	case EnsureImage:
		s.images[imageKey(a)] = Image{Failure: &Failure{Reason: "ErrImagePull", Message: f.Message, RetryAt: at}}
	case StartContainer:
		s.failed(failureKey(a), "CreateContainerError", f.Message, now, taskRetry)
	case RunHook:
		HookFailed{Name: a.Name, ContainerID: a.ID, Message: f.Message}.settle(s, now)
	default:
		s.failed(failureKey(a), "", f.Message, now, taskRetry)
	}
}

// VolumesPrepared says that all volumes can be mounted.
type VolumesPrepared struct{}

func (VolumesPrepared) take(s *State, _ time.Time) {
	if s.end(VolumesKey) {
		s.volumesReady, s.volumeFailure = true, nil
	}
}

// VolumesFailed says that volumes could not be prepared. Cancelled is set if the pod no longer needed them.
type VolumesFailed struct {
	Message   string   `json:"-"`
	Failures  []string `json:"-"` // of the single volumes, as texts of events
	Cancelled bool     `json:",omitempty"`
}

func (f VolumesFailed) take(s *State, now time.Time) {
	if !s.end(VolumesKey) {
		return
	}

	count := 1
	if s.volumeFailure != nil {
		count = s.volumeFailure.Count + 1
	}
	if !f.Cancelled {
		tellVolumeFailures(s, count, f.Failures)
	}
	s.volumeFailure = &Failure{Message: f.Message, RetryAt: now.Add(volumeBackoff.Wait(count)), Count: count}
}

// SandboxMade is a new sandbox, with its network.
type SandboxMade struct{ Sandbox Sandbox }

func (f SandboxMade) take(s *State, _ time.Time) {
	if s.end(SandboxKey) {
		delete(s.failures, SandboxKey)
		s.runtime = s.runtime.Merge(&Runtime{Sandboxes: []Sandbox{f.Sandbox}})
	}
}

// SandboxFailed says that no sandbox could be made. The runtime may have made a part of it.
type SandboxFailed struct {
	Message string `json:"-"`
}

func (f SandboxFailed) take(s *State, now time.Time) {
	if s.end(SandboxKey) {
		s.fail(Action{Kind: CreateSandbox, Key: SandboxKey}, "CreatePodSandboxError", f.Message, now)
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
	if !s.end(imageActionKey(imageKey(a))) {
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
	Container Container
	Hook      bool `json:",omitempty"`
}

func (f ContainerStarted) take(s *State, _ time.Time) {
	name := f.Container.Name
	if !s.end(startKey(name)) {
		return
	}
	delete(s.failures, name)
	delete(s.images, name) // the next start asks again, as the pull policy says
	s.runtime = s.runtime.Merge(&Runtime{Containers: []Container{f.Container}})
	if f.Hook {
		s.postStart[name] = PostStart{ContainerID: f.Container.ID}
	}
}

// StartFailed says that a container could not be made, or not be started. Container is what was made of it; nil for
// nothing.
type StartFailed struct {
	Name, Reason string
	Message      string     `json:"-"`
	Container    *Container `json:",omitempty"`
}

func (f StartFailed) take(s *State, now time.Time) {
	if !s.end(startKey(f.Name)) {
		return
	}
	s.fail(Action{Kind: StartContainer, Name: f.Name}, f.Reason, f.Message, now)
	delete(s.images, f.Name) // it may be gone: the next attempt checks
	if f.Container != nil {
		s.runtime = s.runtime.Merge(&Runtime{Containers: []Container{*f.Container}})
	}
}

// HookDone says that a postStart hook has succeeded, or that its container ended before it did.
type HookDone struct{ Name, ContainerID string }

func (f HookDone) take(s *State, _ time.Time) {
	if s.end(hookKey(f.Name)) && s.postStart[f.Name].ContainerID == f.ContainerID {
		s.postStart[f.Name] = PostStart{ContainerID: f.ContainerID, Done: true}
	}
}

// HookFailed says that a postStart hook has failed: its container has to end.
type HookFailed struct {
	Name, ContainerID string
	Message           string `json:"-"`
}

func (f HookFailed) take(s *State, now time.Time) {
	if s.end(hookKey(f.Name)) {
		f.settle(s, now)
	}
}

func (f HookFailed) settle(s *State, now time.Time) {
	if s.postStart[f.Name].ContainerID == f.ContainerID {
		s.postStart[f.Name] = PostStart{ContainerID: f.ContainerID, Done: true, Failed: true}
	}
	s.fail(Action{Kind: RunHook, Name: f.Name}, "PostStartHookError", f.Message, now)
}

// ContainerStopped says that the runtime has stopped a container. Container is how it ended; nil if the runtime does
// not say.
type ContainerStopped struct {
	Key, ID   string     // of the action
	Container *Container `json:",omitempty"`
}

func (f ContainerStopped) take(s *State, _ time.Time) {
	if !s.end(f.Key) {
		return
	}
	delete(s.failures, f.Key)
	if f.Container != nil {
		merge(s, &Runtime{Containers: []Container{*f.Container}})
	}
	if c, ok := s.runtime.Find(f.ID); ok && c.State == Running { // the runtime no longer knows it
		s.runtime = s.runtime.Without(f.ID)
	}
}

// StopFailed says that a container could not be stopped.
type StopFailed struct {
	Key     string
	Message string `json:"-"`
}

func (f StopFailed) take(s *State, now time.Time) {
	if s.end(f.Key) {
		s.fail(Action{Kind: StopContainer, Key: f.Key}, "KillContainerError", f.Message, now)
	}
}

// SandboxStopped says that a sandbox has stopped and its network is gone.
type SandboxStopped struct{ ID string }

func (f SandboxStopped) take(s *State, _ time.Time) {
	if s.end(stopSandboxKey(f.ID)) {
		delete(s.failures, StopSandboxKey)
		s.stopped[f.ID] = true
		s.runtime = s.runtime.SandboxDown(f.ID)
	}
}

// SandboxStopFailed says that a sandbox could not be stopped.
type SandboxStopFailed struct {
	ID      string
	Message string `json:"-"`
}

func (f SandboxStopFailed) take(s *State, now time.Time) {
	if s.end(stopSandboxKey(f.ID)) {
		s.fail(Action{Kind: StopSandbox}, "KillPodSandboxError", f.Message, now)
	}
}

// RemoveDone says that a sandbox or a container was removed.
type RemoveDone struct{ ID string }

func (f RemoveDone) take(s *State, _ time.Time) {
	if s.end(removeKey(f.ID)) {
		delete(s.failures, RemoveKey)
		s.removed[f.ID] = true
		s.runtime = s.runtime.Without(f.ID)
	}
}

// RemoveFailed says that a sandbox or a container could not be removed.
type RemoveFailed struct {
	ID      string
	Message string `json:"-"`
}

func (f RemoveFailed) take(s *State, now time.Time) {
	if s.end(removeKey(f.ID)) {
		s.fail(Action{Kind: RemoveContainer}, "", f.Message, now)
	}
}

// CleanedUp says that the volumes and the cgroup of the pod are gone.
type CleanedUp struct{}

func (CleanedUp) take(s *State, _ time.Time) {
	if s.end(CleanupKey) {
		s.cleanup.done = true
	}
}

// CleanupFailed says that a volume or the cgroup of the pod is still there.
type CleanupFailed struct {
	Message string `json:"-"`
}

func (f CleanupFailed) take(s *State, now time.Time) {
	if s.end(CleanupKey) {
		s.fail(Action{Kind: Cleanup, Key: CleanupKey}, "", f.Message, now)
	}
}

// WantedImage returns the image that an EnsureImage action asks for, as the pod names it. ok is false if the pod names
// none.
func WantedImage(p *v1.Pod, a Action) (name string, policy v1.PullPolicy, ok bool) {
	if p == nil {
		return "", "", false
	}

	if a.Volume == "" {
		c := FindContainer(p, a.Name)
		if c == nil {
			return "", "", false
		}
		return c.Image, c.ImagePullPolicy, true
	}

	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Name == a.Volume && v.Image != nil {
			return v.Image.Reference, v.Image.PullPolicy, true
		}
	}
	return "", "", false
}

package pod

import (
	"fmt"
	"strings"
	"time"
)

// Kind is the kind of an action.
type Kind string

// The kinds of actions. At most one action per key is in flight; a stop may be repeated, under another key, with less
// grace.
const (
	PrepareVolumes  Kind = "prepare-volumes"
	CreateSandbox   Kind = "create-sandbox"
	StopSandbox     Kind = "stop-sandbox"
	RemoveSandbox   Kind = "remove-sandbox"
	EnsureImage     Kind = "ensure-image"
	StartContainer  Kind = "start-container"
	StopContainer   Kind = "stop-container"
	RemoveContainer Kind = "remove-container"
	Cleanup         Kind = "clean-up"
	ResizePod       Kind = "resize-pod"
	RunHook         Kind = "run-post-start-hook"
)

// Action is one thing to do. Which fields are set depends on Kind.
type Action struct {
	Kind Kind
	// Key names the object that the action is about.
	Key string
	// ID of the sandbox or container.
	ID string `json:",omitzero"`
	// Name of the container.
	Name    string `json:",omitzero"`
	Attempt uint32 `json:",omitzero"`
	// ImageRef is the runtime's name for the image.
	ImageRef string `json:",omitzero"`
	// Grace is how long StopContainer lets the container end by itself; Deadline is when that ends.
	Grace    time.Duration `json:",omitzero"`
	Deadline time.Time     `json:",omitzero"`
	// Message goes into the Killing event.
	Message string `json:",omitzero"`
	// Volume of the pod whose image EnsureImage is about; "" for the image of the container Name.
	Volume string `json:",omitzero"`
	// Reset is the end of the trigger that is known: see Container.Reset. nil: the pod cannot be reset.
	Reset *time.Time `json:",omitempty"`
	// Backoff replaces the restart back-off of the container.
	Backoff *Backoff `json:",omitzero"`
	// Updates are the containers that ResizePod changes, in order; empty if only the pod as a whole changes.
	Updates []Update `json:",omitzero"`
}

// Again reports whether the action stops a container that is being stopped already, with less time.
func (a Action) Again() bool { return a.Kind == StopContainer && a.Key != stopKey(a.ID) }

// String returns the kind of the action and what it is about, on one line. Logs and test scripts compare this text, so
// it holds nothing that differs between two runs with the same facts.
func (a Action) String() string {
	parts := []string{string(a.Kind)}
	for _, name := range []string{a.Name, a.Volume} {
		if name != "" {
			parts = append(parts, name)
		}
	}
	if a.ID != "" {
		parts = append(parts, a.ID)
	}
	switch a.Kind {
	case CreateSandbox, StartContainer:
		parts = append(parts, fmt.Sprintf("attempt=%d", a.Attempt))
	case StopContainer:
		parts = append(parts, "grace="+a.Grace.String())
	}
	for _, u := range a.Updates {
		parts = append(parts, u.Name)
	}
	return strings.Join(parts, " ")
}

// Update is a running container that is to get the resources of its spec.
type Update struct{ ID, Name string }

// Backoff is the restart back-off of one container. Delay is how long the container waits after its next exit, At the
// time at which this was decided.
type Backoff struct {
	Delay time.Duration
	At    time.Time
}

// Keys of actions and failures of which a pod has one. No container has such a name.
const (
	SandboxKey     = "/sandbox"
	VolumesKey     = "/volumes"
	CleanupKey     = "/clean-up"
	RemoveKey      = "/remove"
	StopSandboxKey = "/stop-sandbox"
)

// ResizeKey is the key of ResizePod actions and of their failures.
const ResizeKey = "/resize"

// Keys of actions that are about one container, sandbox or image.
func startKey(container string) string     { return "start/" + container }
func hookKey(container string) string      { return "start/" + container + "/hook" }
func stopKey(container string) string      { return "stop/" + container }
func stopSandboxKey(sandbox string) string { return "stop-sandbox/" + sandbox }
func removeKey(id string) string           { return "remove/" + id }
func imageActionKey(image string) string {
	if strings.HasPrefix(image, "/") { // of a volume
		return "image" + image
	}
	return "image/" + image
}

// VolumeImage returns the name under which the state keeps the image of a volume. No container has such a name.
func VolumeImage(volume string) string { return "/volume/" + volume }

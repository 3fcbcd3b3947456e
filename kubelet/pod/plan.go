package pod

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
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

// Event is something to report to the user. The actor sends each (Key, Reason) once; one without a Key, always.
type Event struct {
	Key                   string
	Type, Reason, Message string
	Container             string
	Annotations           map[string]string
}

// Plan is what Reconcile decides in one pass over a pod.
type Plan struct {
	Status  v1.PodStatus
	Actions []Action
	Events  []Event
	// Cancel are the keys of actions in flight that may give up, because their outcome is no longer needed.
	Cancel []string
	// NextWake is when the next pass is due even if nothing happens; zero means never.
	NextWake time.Time
	// Stopping is set as soon as the pod must end.
	Stopping bool
	// Stopped is set when no container runs and none will: what the pod holds of the node is free.
	Stopped bool
	// Delete is set when the API object can be deleted, after Status was written.
	Delete bool
	// Finished is set when nothing of the pod is left on the node but folders.
	Finished bool
}

// Dump prints the actions, one per line.
func (p *Plan) Dump() string {
	var b strings.Builder
	for _, a := range p.Actions {
		fmt.Fprintln(&b, a)
	}
	return b.String()
}

// Describe prints the plan made at that time as a whole: the phase of the pod, the actions, the reasons of the events,
// the next wake-up, and how far the end of the pod is.
func (p *Plan) Describe(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "phase %s\n%s", cmp.Or(string(p.Status.Phase), "none"), p.Dump())
	for _, e := range p.Events {
		fmt.Fprintln(&b, strings.TrimRight("event "+e.Type+" "+e.Reason+" "+e.Container, " "))
	}
	for _, key := range p.Cancel {
		fmt.Fprintln(&b, "cancel", key)
	}
	if !p.NextWake.IsZero() {
		fmt.Fprintln(&b, "wake in", p.NextWake.Sub(now))
	}

	for _, end := range []struct {
		is   bool
		name string
	}{{p.Stopping, "stopping"}, {p.Stopped, "stopped"}, {p.Delete, "delete"}, {p.Finished, "finished"}} {
		if end.is {
			fmt.Fprintln(&b, end.name)
		}
	}
	return b.String()
}

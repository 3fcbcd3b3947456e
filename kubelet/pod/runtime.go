package pod

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ContainerState is where a container is in its life. A container never goes back to an earlier state.
type ContainerState int

// The states of a container, in their order.
const (
	Created ContainerState = iota
	Running
	Exited
)

var containerStates = []string{"created", "running", "exited"}

func (c ContainerState) String() string { return containerStates[c] }

// MarshalText returns the state as a word, see String.
func (c ContainerState) MarshalText() ([]byte, error) {
	if int(c) >= len(containerStates) {
		return nil, fmt.Errorf("there is no state %d of a container", int(c))
	}
	return []byte(containerStates[c]), nil
}

// UnmarshalText reads the word of MarshalText.
func (c *ContainerState) UnmarshalText(text []byte) error {
	i := slices.Index(containerStates, string(text))
	if i < 0 {
		return fmt.Errorf("there is no state %q of a container", text)
	}
	*c = ContainerState(i)
	return nil
}

// Container is one container instance as the runtime knows it.
type Container struct {
	ID, SandboxID, Name string
	// Attempt counts from 0; it is the restart count.
	Attempt uint32
	State   ContainerState
	// Hash is the result of Hash for the spec that the container was made from; its annotations keep it.
	Hash                             string
	Image, ImageID                   string
	CreatedAt, StartedAt, FinishedAt time.Time
	ExitCode                         int32
	Reason                           string
	Message                          string `json:"-"` // what the container said at its end; not for a log of facts
	LogPath                          string
	User                             *v1.ContainerUser
	// MadeWith are the resources that it was made with, from its annotations; nil if they do not have them. Given are
	// the resources that it has now, as the runtime reports them.
	MadeWith *v1.ResourceRequirements
	// MadeIn are the limits that the pod as a whole had when the container was made.
	MadeIn v1.ResourceList
	Given  Given
	// Reset is when the trigger ended that was known when the container was planned, from its annotations; the zero
	// time if there was none. nil: its annotations do not say so.
	Reset *time.Time
	// Restored is what its annotations keep of its spec for its end, if it has a preStop hook: name, hook and ports.
	// Nil without one. A hook's command is not for a log of facts.
	Restored *v1.Container `json:"-"`
}

// Given are the limits of a container as the runtime reports them, in the units of cgroups and bytes. Zero means no
// limit.
type Given struct {
	Shares, Quota, Period, Memory int64
	// At is when the runtime was asked. An older answer never replaces a newer one.
	At time.Time
}

// Sandbox is one pod sandbox as the runtime knows it.
type Sandbox struct {
	ID          string
	Attempt     uint32
	Ready       bool
	HostNetwork bool
	IPs         []string
	CreatedAt   time.Time
	// Handler is the runtime handler that runs it, "" for the default one.
	Handler string
}

// Runtime is what the runtime knows about one pod. Once it is shared, it must not be changed.
type Runtime struct {
	Name, Namespace, UID string
	Sandboxes            []Sandbox
	Containers           []Container
}

// latest returns the newest instance of the named container and the one before it; nil if there is no such instance.
func (r *Runtime) latest(name string) (newest, previous *Container) {
	if r == nil {
		return nil, nil
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		if c.Name != name {
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

func later(a, b *Container) bool {
	if a.Attempt != b.Attempt {
		return a.Attempt > b.Attempt
	}
	return a.CreatedAt.After(b.CreatedAt)
}

// sandbox returns the newest sandbox, or nil.
func (r *Runtime) sandbox() *Sandbox {
	if r == nil {
		return nil
	}
	var newest *Sandbox
	for i := range r.Sandboxes {
		s := &r.Sandboxes[i]
		if newest == nil || s.Attempt > newest.Attempt ||
			s.Attempt == newest.Attempt && s.CreatedAt.After(newest.CreatedAt) {
			newest = s
		}
	}
	return newest
}

// Running reports whether any container may run.
func (r *Runtime) Running() bool {
	return r != nil && slices.ContainsFunc(r.Containers, func(c Container) bool { return c.State == Running })
}

// Sandbox returns the newest sandbox; ok is false if there is no sandbox.
func (r *Runtime) Sandbox() (s Sandbox, ok bool) {
	if p := r.sandbox(); p != nil {
		return *p, true
	}
	return Sandbox{}, false
}

// Latest returns the newest instance of the named container.
func (r *Runtime) Latest(name string) (c Container, ok bool) {
	if p, _ := r.latest(name); p != nil {
		return *p, true
	}
	return Container{}, false
}

// Merge returns r updated by a newer, perhaps incomplete answer of the runtime. New objects are added, known ones are
// replaced, but a container never goes back to an earlier state. Objects that are not in update stay. Neither r nor
// update is changed.
func (r *Runtime) Merge(update *Runtime) *Runtime {
	if r == nil {
		return update
	}

	out := *r
	out.Sandboxes, out.Containers = slices.Clone(r.Sandboxes), slices.Clone(r.Containers)
	for _, s := range update.Sandboxes {
		i := slices.IndexFunc(out.Sandboxes, func(o Sandbox) bool { return o.ID == s.ID })
		switch {
		case i < 0:
			out.Sandboxes = append(out.Sandboxes, s)
		case out.Sandboxes[i].Ready || !s.Ready:
			if len(s.IPs) == 0 {
				s.IPs = out.Sandboxes[i].IPs
			}
			out.Sandboxes[i] = s
		}
	}

	for _, c := range update.Containers {
		i := slices.IndexFunc(out.Containers, func(o Container) bool { return o.ID == c.ID })
		switch {
		case i < 0:
			out.Containers = append(out.Containers, c)
		case c.State >= out.Containers[i].State:
			if c.SandboxID == "" {
				c.SandboxID = out.Containers[i].SandboxID
			}
			if old := out.Containers[i].Given; c.Given.At.Before(old.At) {
				c.Given = old
			}
			out.Containers[i] = c
		}
	}

	return &out
}

// forgetAfter is the age from which an object that a full check did not list counts as gone. A younger one may still
// be under construction: the runtime lists it at the end, with the time of the beginning.
const forgetAfter = 5 * time.Minute

// Checked returns r after a full check that began at that time and found update. Objects that were made forgetAfter
// before it, and are not in update, are gone.
func (r *Runtime) Checked(update *Runtime, began time.Time) *Runtime {
	if r == nil {
		return update
	}
	out := r.Merge(update)
	lost := func(id string, made time.Time) bool {
		in := slices.ContainsFunc(update.Sandboxes, func(s Sandbox) bool { return s.ID == id }) ||
			slices.ContainsFunc(update.Containers, func(c Container) bool { return c.ID == id })
		return !in && made.Before(began.Add(-forgetAfter))
	}
	out.Sandboxes = slices.DeleteFunc(slices.Clone(out.Sandboxes),
		func(s Sandbox) bool { return lost(s.ID, s.CreatedAt) })
	out.Containers = slices.DeleteFunc(slices.Clone(out.Containers),
		func(c Container) bool { return lost(c.ID, c.CreatedAt) })
	return out
}

// Without returns r without the container or sandbox of that id. Without a sandbox, its containers are gone too.
func (r *Runtime) Without(id string) *Runtime {
	if r == nil {
		return nil
	}
	out := *r
	out.Sandboxes = slices.DeleteFunc(slices.Clone(r.Sandboxes), func(s Sandbox) bool { return s.ID == id })
	out.Containers = slices.DeleteFunc(slices.Clone(r.Containers), func(c Container) bool {
		return c.ID == id || c.SandboxID == id
	})
	return &out
}

// Find returns the container of that id.
func (r *Runtime) Find(id string) (c Container, ok bool) {
	if r != nil {
		for _, c := range r.Containers {
			if c.ID == id {
				return c, true
			}
		}
	}
	return Container{}, false
}

// SandboxDown returns r with that sandbox not ready. Its containers stay as they are: their end is reported separately.
func (r *Runtime) SandboxDown(id string) *Runtime {
	if r == nil {
		return nil
	}
	out := *r
	out.Sandboxes = slices.Clone(r.Sandboxes)
	for i := range out.Sandboxes {
		if out.Sandboxes[i].ID == id {
			out.Sandboxes[i].Ready = false
		}
	}
	return &out
}

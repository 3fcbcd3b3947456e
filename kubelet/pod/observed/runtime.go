package observed

import (
	"iter"
	"slices"
	"time"
)

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

// All yields the containers, all instances of each. They are parts of r.
func (r *Runtime) All() iter.Seq[*Container] {
	return func(yield func(*Container) bool) {
		if r == nil {
			return
		}
		for i := range r.Containers {
			if !yield(&r.Containers[i]) {
				return
			}
		}
	}
}

// Newest returns the newest instance of the named container; nil if there is none.
func (r *Runtime) Newest(name string) *Container {
	newest, _ := r.Last(name, func(*Container) bool { return true })
	return newest
}

// Last returns the newest instance of the named container that counts, and the one before it; nil if there is no such
// instance.
func (r *Runtime) Last(name string, counts func(*Container) bool) (newest, previous *Container) {
	for c := range r.All() {
		if c.Name != name || !counts(c) {
			continue
		}
		switch {
		case newest == nil || c.NewerThan(newest):
			newest, previous = c, newest
		case previous == nil || c.NewerThan(previous):
			previous = c
		}
	}
	return newest, previous
}

// Latest returns the newest instance of the named container.
func (r *Runtime) Latest(name string) (c Container, ok bool) {
	if p := r.Newest(name); p != nil {
		return *p, true
	}
	return Container{}, false
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

// Running reports whether any container may run.
func (r *Runtime) Running() bool {
	return r != nil && slices.ContainsFunc(r.Containers, func(c Container) bool { return c.State == Running })
}

// NewestSandbox returns the newest sandbox, or nil.
func (r *Runtime) NewestSandbox() *Sandbox {
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

// Sandbox returns the newest sandbox; ok is false if there is no sandbox.
func (r *Runtime) Sandbox() (s Sandbox, ok bool) {
	if p := r.NewestSandbox(); p != nil {
		return *p, true
	}
	return Sandbox{}, false
}

// InNewest reports whether a container is of the newest sandbox, or no sandbox is left.
func (r *Runtime) InNewest(c *Container) bool {
	box := r.NewestSandbox()
	return box == nil || c.SandboxID == box.ID
}

// Uses reports whether a container is of that sandbox.
func (r *Runtime) Uses(sandbox string) bool {
	return slices.ContainsFunc(r.Containers, func(c Container) bool { return c.SandboxID == sandbox })
}

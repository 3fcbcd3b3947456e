package observed

import (
	"slices"
	"time"
)

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

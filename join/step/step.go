// Package step carries out a list of steps that make a machine a node, or undo that. A step compares what a machine
// has with what it shall have. Everything here is pure: what touches the machine is in the steps, which come in as
// arguments.
//
//	for each step, in order:  Observe ─▶ Plan (pure) ─▶ nothing to do
//	                             ▲          └────────▶ journal ─▶ Apply ─▶ Observe again
//	                           Wanted
package step

import "context"

// Step is one part of what makes a machine a node, such as a file or a service. Its values are compared and shown as
// JSON. They hold no secrets: a step shows the hash of a secret, or Hidden.
type Step interface {
	// ID names the step, such as "service/kubelet". It is unique and stays the same in later versions: the journal
	// keeps it.
	ID() string
	// Wanted returns what shall be; nil if nothing shall be there. It is called when the steps before have been
	// carried out, or planned in a dry run, and may use what they found.
	Wanted() any
	// Observe returns what is, in the form of Wanted; nil if nothing is there. An error means that it is not known:
	// then the step fails, and nothing is changed. It writes nothing.
	Observe(context.Context) (any, error)
	// Apply makes what is as wanted. It can be repeated, also after it was interrupted at any point.
	Apply(context.Context) error
	// Undo removes what Apply made, and puts back what was before. before is what Observe returned before the first
	// Apply on this machine, as JSON; "null" if nothing was there. It can be repeated, and what is gone already is no
	// error.
	Undo(ctx context.Context, before []byte) error
}

// Hidden stands for a secret in values that are shown.
const Hidden = "<hidden>"

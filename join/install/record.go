package install

import (
	"context"

	"porthole.dev/porthole/join/step"
)

// Record is the last step: the journal says that the machine is a node.
type Record struct{ Journal *step.Journal }

// ID returns the step's name.
func (Record) ID() string { return "record" }

// Wanted returns the state joined.
func (r Record) Wanted() any {
	return map[string]string{"state": step.StateJoined, "server": r.Journal.Server, "node": r.Journal.Node}
}

// Observe returns the state of the journal.
func (r Record) Observe(context.Context) (any, error) {
	if r.Journal.State != step.StateJoined {
		return nil, nil
	}
	return map[string]string{"state": r.Journal.State, "server": r.Journal.Server, "node": r.Journal.Node}, nil
}

// Apply changes the state, which the engine saves.
func (r Record) Apply(context.Context) error {
	r.Journal.State = step.StateJoined
	return nil
}

// Undo changes it back.
func (r Record) Undo(context.Context, []byte) error {
	r.Journal.State = step.StateLeaving
	return nil
}

package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Action is what has to be done about one step.
type Action string

// The actions.
const (
	None   Action = "none"
	Create Action = "create"
	Change Action = "change"
	Delete Action = "delete"
)

// State is what one step wants and what was observed, as JSON; nil and "null" both mean that there is nothing.
type State struct {
	ID               string
	Wanted, Observed json.RawMessage
}

// Op is what has to be done about one step.
type Op struct {
	ID       string          `json:"id"`
	Observed json.RawMessage `json:"observed"`
	Wanted   json.RawMessage `json:"wanted"`
	Action   Action          `json:"action"`
}

// Plan returns one operation for each step, in the same order; Action is None where all is right.
func Plan(states []State) []Op {
	ops := make([]Op, 0, len(states))
	for _, s := range states {
		op := Op{ID: s.ID, Observed: orNull(s.Observed), Wanted: orNull(s.Wanted)}
		switch {
		case bytes.Equal(op.Observed, op.Wanted):
			op.Action = None
		case string(op.Observed) == "null":
			op.Action = Create
		case string(op.Wanted) == "null":
			op.Action = Delete
		default:
			op.Action = Change
		}
		ops = append(ops, op)
	}
	return ops
}

func orNull(value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return json.RawMessage("null")
	}
	return value
}

// String returns the operation as lines of text: the step, and each field whose value changes.
func (o Op) String() string {
	lines := []string{string(o.Action) + " " + o.ID}
	if o.Action != None {
		before := fields(o.Observed)
		after := fields(o.Wanted)
		for _, path := range sortedKeys(before, after) {
			switch old, fresh := before[path], after[path]; {
			case old == fresh:
			case old == "":
				lines = append(lines, fmt.Sprintf("    %s %s", path, fresh))
			case fresh == "":
				lines = append(lines, fmt.Sprintf("    %s %s → nothing", path, old))
			default:
				lines = append(lines, fmt.Sprintf("    %s %s → %s", path, old, fresh))
			}
		}
	}
	return strings.Join(lines, "\n")
}

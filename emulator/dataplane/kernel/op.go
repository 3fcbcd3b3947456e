package kernel

import (
	"fmt"
	"strings"

	"porthole.dev/porthole/emulator/dataplane/table"
)

// Op is one write to the kernel: Add, Set or Del of one resource, or Rules. It prints itself as one line of a plan.
// Each operation can be repeated, and deleting what is gone is success.
type Op interface {
	fmt.Stringer
	// Owner returns the id of the HNS object that the operation is for; "" for rules, which are those of all objects.
	Owner() string
	// Record notes in have that the operation was done. want is the state that the plan leads to.
	Record(have *State, want State)
}

// Add makes a resource that is not there.
type Add struct{ Resource }

// Set corrects a resource that is there and differs.
type Set struct{ Resource }

// Del removes a resource.
type Del struct{ Resource }

// Rules changes the rules of one family's table.
type Rules struct{ *table.Transaction }

func (o Add) String() string { return "add " + o.Resource.String() }
func (o Set) String() string { return "set " + o.Resource.String() }
func (o Del) String() string { return "del " + o.Resource.String() }

// Record notes that the resource is there.
func (o Add) Record(have *State, _ State) { o.put(have) }

// Record notes that the resource is as it should be.
func (o Set) Record(have *State, _ State) { o.put(have) }

// Record notes that the resource is gone.
func (o Del) Record(have *State, _ State) { o.drop(have) }

// Owner is nobody.
func (o Rules) Owner() string { return "" }

// Record takes the rules of the whole table from want: a transaction makes the table what it is there.
func (o Rules) Record(have *State, want State) {
	if o.Table == table.IPv6.Table {
		have.Rules6 = want.Rules6
	} else {
		have.Rules = want.Rules
	}
}

// Plan is an ordered list of writes; it prints itself one per line.
type Plan []Op

func (p Plan) String() string {
	var b strings.Builder
	for _, op := range p {
		b.WriteString(op.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Drift is one difference between what should be and what is.
type Drift struct {
	ID   string `json:"id,omitempty"` // the object, if it is known
	Text string `json:"text"`         // the write that would correct it
}

// Drift returns the differences that the operations of a plan stand for.
func (p Plan) Drift() []Drift {
	drift := []Drift{}
	for _, op := range p {
		tx, ok := op.(Rules)
		if !ok {
			drift = append(drift, Drift{ID: op.Owner(), Text: op.String()})
			continue
		}
		for _, line := range tx.Lines {
			if !strings.HasPrefix(line, "add table ") {
				drift = append(drift, Drift{Text: line})
			}
		}
	}
	return drift
}

package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Journal is what a machine remembers of being a node: node.json. It is written before each step that changes
// something, so that a run that was interrupted can be finished or undone.
type Journal struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// State is joining, joined or leaving.
	State  string `json:"state"`
	Node   string `json:"node"`
	Server string `json:"server"`
	// CAHash is the SHA-256 of the public key of the cluster's authority, as kubeadm prints it.
	CAHash  string `json:"caHash,omitempty"`
	Version string `json:"version,omitempty"` // of the porthole that joined
	// Steps that changed something, in their order.
	Steps []Entry `json:"steps,omitempty"`
	// Facts are what the steps found and need again: the subnets of the cluster, the flags that were given.
	Facts map[string]string `json:"facts,omitempty"`
}

// Entry is one step that was, or may have been, carried out.
type Entry struct {
	ID string `json:"id"`
	// Before is what was observed before the first Apply on this machine; null if nothing was there.
	Before json.RawMessage `json:"before"`
	Done   bool            `json:"done"`
}

// States of a journal.
const (
	StateJoining = "joining"
	StateJoined  = "joined"
	StateLeaving = "leaving"
)

// NewJournal returns the journal of a machine that begins to join.
func NewJournal(node, server string) Journal {
	return Journal{APIVersion: "porthole.dev/v1alpha1", Kind: "Node", State: StateJoining, Node: node, Server: server,
		Facts: map[string]string{}}
}

// ParseJournal reads a journal.
func ParseJournal(text []byte) (Journal, error) {
	var j Journal
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&j); err != nil {
		return j, fmt.Errorf("reading the journal: %w", err)
	}
	if j.Kind != "Node" {
		return j, fmt.Errorf("reading the journal: kind is %q, not Node", j.Kind)
	}
	if j.Facts == nil {
		j.Facts = map[string]string{}
	}
	return j, nil
}

// Text returns the journal as a file.
func (j Journal) Text() ([]byte, error) {
	text, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the journal: %w", err)
	}
	return append(text, '\n'), nil
}

// begin notes that a step will be carried out. What was there before its first time stays.
func (j *Journal) begin(op Op) {
	if i := j.index(op.ID); i >= 0 {
		j.Steps[i].Done = false
		return
	}
	j.Steps = append(j.Steps, Entry{ID: op.ID, Before: op.Observed})
}

func (j *Journal) end(id string) {
	if i := j.index(id); i >= 0 {
		j.Steps[i].Done = true
	}
}

func (j *Journal) index(id string) int {
	return slices.IndexFunc(j.Steps, func(e Entry) bool { return e.ID == id })
}

// undoOf returns what `porthole leave` does about a step.
func (j *Journal) undoOf(id string) string {
	i := j.index(id)
	switch {
	case i < 0:
		return "keep"
	case string(orNull(j.Steps[i].Before)) == "null":
		return "delete"
	}
	return "restore"
}

package upgrade

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Phase is how far an exchange has come.
type Phase string

// The phases. After the first three somebody has to go back, or go on.
const (
	Staging   Phase = "staging"
	Switching Phase = "switching"
	Soaking   Phase = "soaking"
	GoingBack Phase = "goingBack"
	Committed Phase = "committed"
	WentBack  Phase = "wentBack"
)

// Journal is what a machine remembers of its last exchange: upgrade.json.
type Journal struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Phase      Phase  `json:"phase"`
	From       string `json:"from"` // versions, by the names of their folders
	To         string `json:"to"`
	Parts      []Part `json:"parts"` // in the order in which they are switched
	// Reason is why it went back.
	Reason string `json:"reason,omitempty"`
	// Failed are versions that were not healthy on this machine, with the reason.
	Failed map[string]string `json:"failed,omitempty"`
	// Older are versions that nothing runs: they are removed when To is taken.
	Older []string `json:"older,omitempty"`
}

// ParseJournal reads a journal.
func ParseJournal(text []byte) (*Journal, error) {
	j := &Journal{}
	if err := json.Unmarshal(text, j); err != nil {
		return nil, fmt.Errorf("reading the journal of the upgrade: %w", err)
	}
	if j.Kind != "Upgrade" {
		return nil, fmt.Errorf("reading the journal of the upgrade: kind is %q, not Upgrade", j.Kind)
	}
	return j, nil
}

// Text returns the journal as a file.
func (j *Journal) Text() ([]byte, error) {
	text, err := json.MarshalIndent(j, "", "  ")
	return append(text, '\n'), err
}

// Interrupted reports whether an exchange has neither been committed nor taken back.
func (j *Journal) Interrupted() bool {
	return j != nil && (j.Phase == Staging || j.Phase == Switching || j.Phase == Soaking || j.Phase == GoingBack)
}

// Active is the version that the machine has, or will have when it has gone back; "" if no exchange was begun.
func (j *Journal) Active() string {
	switch {
	case j == nil:
		return ""
	case j.Phase == Committed:
		return j.To
	}
	return j.From
}

// next returns the journal of the exchange after j, which may be nil.
func (j *Journal) next(from, to string, parts []Part) *Journal {
	n := &Journal{APIVersion: "porthole.dev/v1alpha1", Kind: "Upgrade", Phase: Staging, From: from, To: to,
		Parts: parts, Failed: map[string]string{}}
	if j == nil {
		return n
	}
	for version, why := range j.Failed {
		n.Failed[version] = why
	}
	for _, version := range append([]string{j.From, j.To}, j.Older...) {
		if version != from && version != to && !slices.Contains(n.Older, version) {
			n.Older = append(n.Older, version)
		}
	}
	return n
}

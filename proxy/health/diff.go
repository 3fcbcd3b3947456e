package health

import (
	"context"
	"fmt"
	"io"
)

// Diff is the document at /diff: what is wanted against what the host lists.
type Diff struct {
	// Equal: no operation is needed and nothing is refused.
	Equal bool `json:"equal"`
	// Right counts the frontends that need nothing.
	Right int `json:"right"`
	// Operations would make both equal, in this order.
	Operations []DiffLine `json:"operations,omitempty"`
	// Problems are frontends that cannot be as wanted.
	Problems []DiffLine `json:"problems,omitempty"`
}

// DiffLine is one operation or problem.
type DiffLine struct {
	Verb     string `json:"verb,omitempty"`
	Frontend string `json:"frontend,omitempty"`
	Service  string `json:"service,omitempty"`
	Text     string `json:"text"`
}

// Print writes the difference for people.
func (d Diff) Print(out io.Writer) error {
	if d.Equal {
		_, err := fmt.Fprintf(out, "equal: %d frontends are as wanted\n", d.Right)
		return err
	}
	for _, o := range d.Operations {
		if _, err := fmt.Fprintln(out, o.Text); err != nil {
			return err
		}
	}
	for _, p := range d.Problems {
		if _, err := fmt.Fprintf(out, "%s: %s\n", p.Frontend, p.Text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "different: %d operations, %d problems, %d frontends are as wanted\n", len(d.Operations), len(d.Problems), d.Right)
	return err
}

// DiffPage adapts a comparison that needs no context.
func DiffPage(compare func() (Diff, error)) func(context.Context) (any, error) {
	return func(context.Context) (any, error) { return compare() }
}

package health

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
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
	// Problem is why the proxy's last attempt at the frontend failed, or "". Since is when the first attempt of the
	// row failed.
	Problem string    `json:"problem,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// String names the service and the frontend, once each; the failure has a line of its own.
func (l DiffLine) String() string {
	s := l.Text
	if l.Verb == "" && !strings.HasPrefix(s, l.Frontend) {
		s = l.Frontend + ": " + s
	}
	if l.Service != "" {
		s = l.Service + ": " + s
	}
	switch since := l.Since.Format(time.RFC3339); l.Problem {
	case "":
		return s
	case l.Text:
		return s + " (since " + since + ")"
	default:
		return s + "\n  has failed since " + since + ": " + l.Problem
	}
}

// Print writes the difference for people.
func (d Diff) Print(out io.Writer) error {
	if d.Equal {
		_, err := fmt.Fprintf(out, "equal: %d frontends are as wanted\n", d.Right)
		return err
	}
	for _, l := range slices.Concat(d.Operations, d.Problems) {
		if _, err := fmt.Fprintln(out, l); err != nil {
			return err
		}
	}

	advice := ""
	if len(d.Operations) > 0 {
		advice = "the proxy does these operations by itself at its next check, and tries again what failed\n"
	}
	_, err := fmt.Fprintf(out, "different: %d operations, %d problems, %d frontends are as wanted\n%s",
		len(d.Operations), len(d.Problems), d.Right, advice)
	return err
}

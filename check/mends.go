package check

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Mend is a mend of the Wine that an emulated host runs with.
type Mend struct {
	Name    string `json:"mend"`
	What    string `json:"what"` // it is for
	Outcome string `json:"outcome"`
	Why     string `json:"why,omitempty"`
}

// Outcomes of a mend: what this Wine needs of it. These two say that hosts do not work with it.
const (
	MendUnfit = "does not fit"
	MendFails = "fails"
)

// Mends are all mends, and the Wine.
type Mends struct {
	Wine string `json:"wine"`
	List []Mend `json:"list"`
}

// Count returns how many mends have an outcome.
func (m Mends) Count(outcome string) int {
	n := 0
	for _, one := range m.List {
		if one.Outcome == outcome {
			n++
		}
	}
	return n
}

// Good reports whether all mends fit and do what they are for.
func (m Mends) Good() bool { return m.Count(MendUnfit)+m.Count(MendFails) == 0 }

// Print writes a line for each mend, with all also why it has its outcome, and a line of counts.
func (m Mends) Print(out io.Writer, all bool) error {
	fmt.Fprintf(out, "mends of %s:\n", m.Wine)
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, one := range m.List {
		why := ""
		if all || one.Outcome == MendUnfit || one.Outcome == MendFails {
			why = one.Why
		}
		line := fmt.Sprintf("  %s\t%s\t%s", one.Outcome, one.Name, one.What)
		if why != "" {
			line += "\t" + why
		}
		fmt.Fprintln(w, line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d needed, %d not needed, %d required, %d do not fit, %d fail\n",
		m.Count("needed"), m.Count("not needed"), m.Count("required"), m.Count(MendUnfit), m.Count(MendFails))
	return err
}

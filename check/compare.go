package check

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Fact is one thing that our programs assume of Windows and that one line of a probe shows.
type Fact struct {
	// Number is that of the open question in docs/windows-facts.md. Several lines may belong to one question.
	Number int    `json:"number"`
	Line   string `json:"line"` // name of the line that shows it
	Fact   string `json:"fact"` // what is asked
	// Assume is what our programs rely on. With any other answer they do not work.
	Assume string `json:"assume"`
	Source string `json:"source"` // of the assumption: a document, another program, or where it is used here
	Probe  string `json:"probe"`  // hns, host or runtime: which probe has the line
	// Changes: the line is there only if the probe may change the machine.
	Changes bool `json:"changes,omitempty"`

	holds func(value string) bool
}

// Outcome of a comparison.
type Outcome string

// Outcomes.
const (
	AsAssumed Outcome = "as assumed"
	Differs   Outcome = "differs"
	NotAsked  Outcome = "not asked" // no line: the probe did not run, may not change the machine, or ended before
)

// Finding is a fact with what the host answered.
type Finding struct {
	Fact
	Outcome Outcome `json:"outcome"`
	Value   string  `json:"value,omitempty"`
	Error   string  `json:"error,omitempty"`
	// Forbidden: not asked because the probe may not change the machine.
	Forbidden bool `json:"forbidden,omitempty"`
}

// Compare looks up the line of each fact in the reports.
func Compare(facts []Fact, reports []Report) []Finding {
	findings := make([]Finding, 0, len(facts))
	for _, f := range facts {
		findings = append(findings, compare(f, reports))
	}
	return findings
}

// compare finds the line of the fact in the reports of its probe, and judges it. The first report that has the line
// counts.
func compare(f Fact, reports []Report) Finding {
	ran, changed := false, false
	for _, r := range reports {
		if r.Probe != f.Probe {
			continue
		}
		ran, changed = true, changed || r.Changed
		line, ok := r.Get(f.Line)
		if !ok {
			continue
		}
		outcome := Differs
		if f.holds(line.Value) {
			outcome = AsAssumed
		}
		return Finding{Fact: f, Outcome: outcome, Value: line.Value, Error: line.Error}
	}
	return Finding{Fact: f, Outcome: NotAsked, Forbidden: ran && f.Changes && !changed}
}

// Count returns how many findings have an outcome.
func Count(findings []Finding, o Outcome) int {
	n := 0
	for _, f := range findings {
		if f.Outcome == o {
			n++
		}
	}
	return n
}

// Print writes what differs, then what could not be asked, and a line of counts. With all, it also writes what is as
// assumed.
func Print(out io.Writer, findings []Finding, all bool) error {
	for _, f := range findings {
		if f.Outcome != Differs {
			continue
		}
		fmt.Fprintf(out, "differs: %s (question %d)\n  this host: %s\n  assumed:   %s\n", f.Fact.Fact, f.Number,
			Line{Name: f.Line, Value: f.Value, Error: f.Error}, f.Assume)
	}

	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if all {
		for _, f := range findings {
			if f.Outcome == AsAssumed {
				fmt.Fprintf(w, "as assumed:\t%s\t%s\n", f.Line, f.Value)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}

	var missing, forbidden []string
	for _, f := range findings {
		switch {
		case f.Outcome != NotAsked:
		case f.Forbidden:
			forbidden = append(forbidden, f.Line)
		default:
			missing = append(missing, f.Line)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(out, "not asked: %s\n", strings.Join(missing, ", "))
	}
	if len(forbidden) > 0 {
		fmt.Fprintf(out, "not asked without changes to the machine: %s\n", strings.Join(forbidden, ", "))
	}
	_, err := fmt.Fprintf(out, "%d as assumed, %d differ, %d not asked\n", Count(findings, AsAssumed),
		Count(findings, Differs), Count(findings, NotAsked))
	return err
}

// Markdown returns the table of open questions for docs/windows-facts.md.
func Markdown(facts []Fact) string {
	sorted := slices.Clone(facts)
	slices.SortStableFunc(sorted, func(a, b Fact) int { return cmp.Compare(a.Number, b.Number) })

	var b strings.Builder
	b.WriteString("| no. | question | line of the probe | what we assume | used or said by |\n|---|---|---|---|---|\n")
	for _, f := range sorted {
		line := fmt.Sprintf("`%s` of `probe-%s`", f.Line, f.Probe)
		if f.Changes {
			line += ", with changes"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", f.Number, f.Fact, line, f.Assume, f.Source)
	}
	return b.String()
}

// anything accepts every value. It is for facts on which no program depends yet; the answer is wanted for a decision.
func anything(string) bool { return true }

// oneOf accepts these values.
func oneOf(values ...string) func(string) bool {
	return func(v string) bool { return slices.Contains(values, v) }
}

// has accepts lists that contain a word.
func has(word string) func(string) bool {
	return func(v string) bool { return slices.Contains(words(v), word) }
}

// words returns the elements of a list in the form in which probes write it.
func words(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
}

// atMost accepts whole numbers up to limit.
func atMost(limit int) func(string) bool {
	return func(v string) bool {
		n := 0
		_, err := fmt.Sscanf(v, "%d", &n)
		return err == nil && n <= limit
	}
}

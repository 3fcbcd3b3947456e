// Package check compares what a Windows host does with what our programs assume of Windows. It is pure: the folder
// check/probe asks the host.
package check

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Line is one answer of the host.
type Line struct {
	// Name is constant for a question, such as "attach.again.hcn"; docs/windows-facts.md refers to it.
	Name string `json:"name"`
	// Value is what the host answered. A call that returns nothing gives "ok"; one that failed gives its code, such as
	// "0x803b002b", or "failed" if it has none.
	Value string `json:"value"`
	// Error is the text of a failure, as the host wrote it.
	Error string `json:"error,omitempty"`
	// Millis is how long the answer took, in milliseconds.
	Millis int64 `json:"millis"`
}

// Report is what one probe found.
type Report struct {
	Probe   string `json:"probe"`   // hns, host or runtime
	Release string `json:"release"` // of Windows, such as "10.0.20348.2700 Windows Server 2022 Datacenter"
	Changed bool   `json:"changed"` // whether the probe was allowed to change the machine
	Lines   []Line `json:"lines"`
	// Left names what the probe made and could not remove, each with the error.
	Left []string `json:"left,omitempty"`
}

// Get returns the last line of a name.
func (r Report) Get(name string) (Line, bool) {
	for _, l := range slices.Backward(r.Lines) {
		if l.Name == name {
			return l, true
		}
	}
	return Line{}, false
}

// PrintJSON writes a report, or anything else, as indented JSON.
func PrintJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// String returns "name value", and the error's text if there is one.
func (l Line) String() string {
	if l.Error == "" {
		return l.Name + " " + l.Value
	}
	return fmt.Sprintf("%s %s (%s)", l.Name, l.Value, strings.TrimSpace(l.Error))
}

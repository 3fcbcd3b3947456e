package step

import "encoding/json"

// Outcome is how a run ended.
type Outcome string

// The outcomes.
const (
	Joined         Outcome = "joined"
	Unchanged      Outcome = "unchanged"      // everything was right already
	Planned        Outcome = "planned"        // a dry run
	Refused        Outcome = "refused"        // a check failed; nothing was changed
	RebootRequired Outcome = "rebootRequired" // restart the machine and run the same command again
	Failed         Outcome = "failed"         // the message says at which step; the same command goes on there
	TimedOut       Outcome = "timedOut"       // installed, not Ready in time; the services go on trying
	RolledBack     Outcome = "rolledBack"     // the node has the version before: the new one was not healthy
	Left           Outcome = "left"
	Upgraded       Outcome = "upgraded"
)

// exitCodes by outcome; those that are not listed are 0.
var exitCodes = map[Outcome]int{Failed: 1, RebootRequired: 3, Refused: 4, RolledBack: 5, TimedOut: 6}

// ExitCode returns the exit code of the program that ends so.
func (o Outcome) ExitCode() int { return exitCodes[o] }

// Check is the result of one check before anything is changed.
type Check struct {
	Name    string `json:"name"`
	Result  string `json:"result"` // pass, warning, error, reboot, ignored
	Message string `json:"message,omitempty"`
	Cure    string `json:"cure,omitempty"`
}

// Topology is one way in which pods of this node may reach those of the others, and whether the node and the cluster
// are made for it.
type Topology struct {
	Name string `json:"name"` // as --network takes it, or --mode of `porthole routes`
	// Result is yes (join sets it up), manual (the node can, and join does not set it up), no or unknown.
	Result string `json:"result"`
	Why    string `json:"why"`
	// Do is the command that sets it up, or what has to change so that it can be.
	Do string `json:"do,omitempty"`
}

// Result is what became of one step.
type Result struct {
	Op
	Result  string  `json:"result"` // done, unchanged, planned, failed
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"`
	// Undo is what `porthole leave` does about the step: delete, restore, keep.
	Undo string `json:"undo,omitempty"`
}

// Report is the whole of a run, which `-o json` prints.
type Report struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Node       string   `json:"node"`
	Server     string   `json:"server"`
	Outcome    Outcome  `json:"outcome"`
	Error      string   `json:"error,omitempty"`
	Checks     []Check  `json:"checks"`
	Steps      []Result `json:"steps"`
	// From and To are versions; only of an upgrade or a rollback.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Network is the one that the cluster was found to have, and Topologies are what this node can do in it; only with
	// --plan.
	Network    string     `json:"network,omitempty"`
	Topologies []Topology `json:"topologies,omitempty"`
	Seconds    float64    `json:"seconds"`
}

// NewReport returns an empty report of a kind, JoinReport or LeaveReport.
func NewReport(kind string) Report {
	return Report{APIVersion: "porthole.dev/v1alpha1", Kind: kind, Checks: []Check{}, Steps: []Result{}}
}

// JSON returns the report as one document, indented.
func (r Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

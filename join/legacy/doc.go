// Package legacy reads what described Windows nodes before kubeadm could join them: cluster documents of acs-engine
// and aks-engine, and command lines of Microsoft's scripts. It says of each field and flag what becomes of it: nothing
// is dropped in silence. It computes only.
package legacy

// Outcome is what becomes of a field or flag.
type Outcome string

// The outcomes.
const (
	Used    Outcome = "used"    // it is in the files for joining
	Dropped Outcome = "dropped" // a node has no such setting any more, or needs none
	Cloud   Outcome = "cloud"   // machines, networks and the control plane, which Porthole does not make
	Refused Outcome = "refused" // it cannot be as asked for
	Unknown Outcome = "unknown" // neither program had it
)

// Outcomes are all of them, in the order of a report.
var Outcomes = []Outcome{Used, Refused, Unknown, Dropped, Cloud}

// Leaf is a field that holds a value, or a flag.
type Leaf struct {
	Path  string  `json:"path"`
	Value string  `json:"value"` // as in the document; hidden if it is a secret
	What  Outcome `json:"verdict"`
	Text  string  `json:"text"` // where it goes, or why it does not
}

// FlagOf says what a flag of the kubelet does today: known, and without effect if it is accepted and does nothing. cli
// has the kubelet's flags.
type FlagOf func(name string) (known, withoutEffect bool)

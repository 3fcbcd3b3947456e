// Package legacy reads what described Windows nodes before kubeadm could join them: cluster documents of acs-engine
// and aks-engine, and command lines of Microsoft's scripts. It says of each field and flag what becomes of it: nothing
// is dropped in silence. It computes only.
package legacy

// Verdict is what becomes of a field or flag.
type Verdict string

// The verdicts.
const (
	Used    Verdict = "used"    // it is in the files for joining
	Dropped Verdict = "dropped" // a node has no such setting any more, or needs none
	Cloud   Verdict = "cloud"   // machines, networks and the control plane, which Porthole does not make
	Refused Verdict = "refused" // it cannot be as asked for
	Unknown Verdict = "unknown" // neither program had it
)

// Verdicts are all of them, in the order of a report.
var Verdicts = []Verdict{Used, Refused, Unknown, Dropped, Cloud}

// Leaf is a field that holds a value, or a flag.
type Leaf struct {
	Path  string  `json:"path"`
	Value string  `json:"value"` // as in the document; hidden if it is a secret
	What  Verdict `json:"verdict"`
	Text  string  `json:"text"` // where it goes, or why it does not
}

// FlagOf says what a flag of the kubelet does today: known, and without effect if it is accepted and does nothing. cli
// has the kubelet's flags.
type FlagOf func(name string) (known, withoutEffect bool)

// Package upgrade exchanges the programs of a node for those of another version, one part after the other, and goes
// back by itself if the new ones are not healthy. It decides and remembers; what touches the machine comes in as a
// Machine. The journal upgrade.json is on the disk before each act, so that whoever comes after an interruption knows
// what was begun.
//
//	staging ─▶ switching: part 1 ─▶ gate ─▶ part 2 ─▶ gate … ─▶ soaking ─▶ committed
//	    │               │ not healthy, interrupted    │             │
//	    ▼               ▼                             ▼             ▼
//	 nothing         goingBack: the parts that were begun, the last first ─▶ wentBack
//
// In each phase every part is of the old version or of the new one, as a whole: both work.
package upgrade

import (
	"context"
	"encoding/json"
)

// Part is a piece of the node that is exchanged as a whole: a service with its program, or the CNI plugins.
type Part struct {
	Name string `json:"name"`
	// Old and New are what Switch makes of the part, such as the configuration of a service. They are the Machine's;
	// the journal keeps them.
	Old json.RawMessage `json:"old"`
	New json.RawMessage `json:"new"`
	// Begun: the switch to New was begun, so that the part may be of either version.
	Begun bool `json:"begun,omitempty"`
}

// Machine is a node whose programs are exchanged. Package node/join has one for each system, tests have one of their
// own.
type Machine interface {
	// Stage puts the programs of the new version on the disk, complete and checked, beside the old ones. It can be
	// repeated.
	Stage(ctx context.Context) error
	// Switch makes the part what state says, and starts it if it is a service. It can be repeated, also after it was
	// interrupted. A part that is so already is not restarted.
	Switch(ctx context.Context, part string, state json.RawMessage) error
	// Healthy returns nil if the part is what state says and answers. instance names the process; another one has been
	// started since.
	Healthy(ctx context.Context, part string, state json.RawMessage) (instance string, err error)
	// Ready returns nil if the control plane says that the node is Ready. sign is another text after each sign of life
	// of its kubelet.
	Ready(ctx context.Context) (sign string, err error)
	// Forget removes the programs of a version that nothing runs any more.
	Forget(ctx context.Context, version string) error
}

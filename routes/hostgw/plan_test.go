package hostgw

import (
	"testing"

	"porthole.dev/porthole/routes/plantest"
	"porthole.dev/porthole/routes/table"
)

// TestScripts plays testdata with the plan of this mode.
func TestScripts(t *testing.T) {
	plantest.Run(t, "testdata/*.txtar", func(w plantest.Given) table.Plan[table.Change] {
		return plan(w.Self, w.Nodes, Seen{Routes: w.Routes, OnLink: w.OnLink})
	})
}

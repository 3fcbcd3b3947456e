package table_test

import (
	"testing"

	"porthole.dev/porthole/routes/plantest"
	"porthole.dev/porthole/routes/table"
)

// TestScripts plays testdata, in which a mode that can reach every address plans its routes.
func TestScripts(t *testing.T) {
	plantest.Run(t, "testdata/*.txtar", func(w plantest.Given) table.Plan[table.Change] {
		return table.Diff(table.Peers(w.Nodes, w.Self), w.Routes)
	})
}

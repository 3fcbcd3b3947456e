package table_test

import (
	"testing"

	"porthole.dev/porthole/routes/plantest"
	"porthole.dev/porthole/routes/table"
)

// TestScripts plays testdata, in which a mode that can reach every address plans its routes.
func TestScripts(t *testing.T) {
	plantest.Run(t, "testdata/*.txtar", func(w plantest.Given) table.Plan[table.Change] {
		return table.Diff(table.Peers(w.Nodes, claims(w)), w.Routes)
	})
}

// claims are those of a mode whose entries are routes.
func claims(w plantest.Given) table.Claims {
	c := w.Claims()
	c.Leads = table.Leads(w.Routes)
	return c
}

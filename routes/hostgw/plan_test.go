package hostgw

import (
	"testing"

	"porthole.dev/porthole/routes/plantest"
	"porthole.dev/porthole/routes/table"
)

// TestScripts plays testdata with the plan of this mode.
func TestScripts(t *testing.T) {
	plantest.Run(t, "testdata/*.txtar", func(w plantest.Given) table.Plan[table.Change] {
		return plan(w.Claims(), w.Nodes, Seen{Routes: w.Routes, OnLink: w.OnLink})
	})
}

// TestLyingNodes: no node can take what another has, whatever it says of itself.
func TestLyingNodes(t *testing.T) {
	plantest.Play(t, nil, func(l *plantest.Lies) func([]table.Node) []table.Route {
		var routes []table.Route
		claims := table.Claims{Self: l.Self, Cluster: l.Cluster()}
		return func(nodes []table.Node) []table.Route {
			routes = plantest.ApplyRoutes(routes, plan(claims, nodes, Seen{Routes: routes, OnLink: l.OnLink}).Ops)
			return routes
		}
	})
}

package routes

import (
	"testing"

	"porthole.dev/porthole/internal/component"
)

// TestOrderOfStart: what starts when, and with what it needs. The pages answer before the network is made.
func TestOrderOfStart(t *testing.T) {
	const want = "API\nhost\nagent: needs API, host\npages: needs agent\nnodes: needs agent\nmemory: needs agent\n" +
		"host's routes: needs host\nnetwork: needs agent, pages\n"
	plan, err := component.Order((&parts{}).components())
	if got := plan.String(); err != nil || got != want {
		t.Errorf("started in the order\n%s\n%v; want\n%s", got, err, want)
	}
}

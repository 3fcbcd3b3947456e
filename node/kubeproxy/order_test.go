package kubeproxy

import (
	"testing"

	"porthole.dev/porthole/internal/component"
)

// TestOrderOfStart: what starts when, and with what it needs. The pages answer before anything is programmed, and
// nothing is while another program may program the services.
func TestOrderOfStart(t *testing.T) {
	const want = "API\nevents: needs API\nown node: needs API\nfigures: needs events, own node\nmode: needs figures\n" +
		"pages: needs mode\nconfiguration\nalone: needs own node\nservices: needs mode, alone\n"
	plan, err := component.Order((&parts{}).components())
	if got := plan.String(); err != nil || got != want {
		t.Errorf("started in the order\n%s\n%v; want\n%s", got, err, want)
	}
}

package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/services"
)

// TestPlanEach: the plan of start and stop has the services that are not in the state yet, in the order of the list.
func TestPlanEach(t *testing.T) {
	get := func(name string) (*services.Status, error) {
		switch name {
		case "porthole-routes":
			return &services.Status{State: running}, nil
		case "kubelet":
			return &services.Status{State: "starting"}, nil
		}
		return nil, nil
	}
	backward := slices.Clone(services.Programs)
	slices.Reverse(backward)

	for _, c := range []struct {
		list  []services.Program
		state string
		asked bool
		want  string
	}{
		{services.Programs, running, false, "change service kubelet: state from starting to running\n"},
		{backward, stopped, false,
			"change service kubelet: state from starting to stopped\nchange service porthole-routes: state from running to stopped\n"},
		{services.Programs[:1], running, true, "nothing to change\n"},
		{services.Programs[1:2], running, true,
			"there is no service kube-proxy: `porthole service install kube-proxy` makes it"},
	} {
		var out strings.Builder
		changes, err := planEach(get, c.list, c.state, c.asked)
		if err == nil {
			err = (&common{dryRun: true}).print(&out, changes)
		}
		if err != nil {
			fmt.Fprint(&out, err)
		}
		if out.String() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.state, &out, c.want)
		}
	}
}

// TestStateChange: a service that would be installed first is not running.
func TestStateChange(t *testing.T) {
	if got := stateChange("kubelet", "", running); len(got) != 1 ||
		got[0].String() != "change service kubelet: state from stopped to running" {
		t.Errorf("%v", got)
	}
	if got := stateChange("kubelet", running, running); got != nil {
		t.Errorf("%v", got)
	}
}

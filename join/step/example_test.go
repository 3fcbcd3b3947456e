package step_test

import (
	"context"
	"fmt"
	"time"

	"porthole.dev/porthole/join/step"
)

// setting is a step: one entry of a map that stands for the machine.
type setting struct {
	machine     map[string]string
	name, value string
}

func (s setting) ID() string  { return "setting/" + s.name }
func (s setting) Wanted() any { return s.value }

func (s setting) Observe(context.Context) (any, error) {
	if value, is := s.machine[s.name]; is {
		return value, nil
	}
	return nil, nil
}

func (s setting) Apply(context.Context) error {
	s.machine[s.name] = s.value
	return nil
}

func (s setting) Undo(context.Context, []byte) error {
	delete(s.machine, s.name)
	return nil
}

// A second run changes nothing: what is there already is compared with what is wanted.
func ExampleRunner_Run() {
	machine := map[string]string{"hostname": "win01"}
	steps := []step.Step{setting{machine, "hostname", "win01"}, setting{machine, "kubelet", "running"}}
	journal := step.NewJournal("win01", "https://192.0.2.1:6443")
	for _, dry := range []bool{true, false, false} {
		runner := &step.Runner{DryRun: dry, Journal: &journal, Now: time.Now,
			Save: func(step.Journal) error { return nil }}
		results, err := runner.Run(context.Background(), steps)
		for _, r := range results {
			fmt.Println(r.Result, r.ID)
		}
		fmt.Println(err)
	}
	// Output:
	// unchanged setting/hostname
	// planned setting/kubelet
	// <nil>
	// unchanged setting/hostname
	// done setting/kubelet
	// <nil>
	// unchanged setting/hostname
	// unchanged setting/kubelet
	// <nil>
}

package join

import (
	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/step"
)

// plan is what makes this machine a node, in order: its identity, by which the last checks ask the cluster; the rest;
// and what is waited for at last.
type plan struct {
	identity, rest, waits []step.Step
}

// newPlan gives the node what was found out, and returns the steps that make it.
func newPlan(s *Setup, f *found, r Request) (p plan, err error) {
	s.Cluster = f.cluster
	s.Settings = f.settings
	s.Bootstrap = f.bootstrap
	s.Network = f.network
	s.Pods = f.pods
	s.Services = f.services
	s.Journal.Node = s.Name
	s.Journal.Server = s.Cluster.Server
	s.Journal.CAHash = s.Cluster.CAHash
	// The choices are in the journal before the first step, so that a run that is interrupted can
	// be repeated without arguments.
	if err := s.remember(); err != nil {
		return p, err
	}

	p.identity = []step.Step{install.Key{Node: &s.Node}, install.Certificate{Node: &s.Node}}
	if p.rest, err = systemSteps(s); err != nil {
		return p, err
	}
	if r.DryRun { // what has not begun cannot be waited for
		return p, nil
	}
	if r.Wait != WaitNone {
		p.waits = append(p.waits, install.Registered{Node: &s.Node})
	}
	if r.Wait == WaitReady {
		p.waits = append(p.waits, install.Ready{Node: &s.Node})
	}
	// The record that the node has joined is the last step.
	p.waits = append(p.waits, install.Record{Journal: s.Journal})
	return p, nil
}

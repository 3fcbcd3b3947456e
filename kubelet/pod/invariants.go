package pod

import (
	"fmt"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// Broken returns the invariants that a plan made for s breaks. Tests assert that there are none; a node logs them, and
// one that is built with the tag debug ends the turn of the pod's actor. Call it before s takes the facts that follow
// from the plan.
func Broken(s *State, p *Plan) []string {
	var out []string
	bad := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !s.runtime.read() { // nothing is known: such a plan has no actions, and its status is not published
		if len(p.Actions) > 0 {
			bad("%s is planned before the runtime was read", p.Actions[0])
		}
		return out
	}
	if s.ending.begun() && !p.Stopping {
		bad("a pod that was stopping is to run again")
	}
	if p.Stopped && (s.runtime.Running() || s.creating()) {
		bad("called stopped while a container runs or is being made")
	}
	brokenActions(s, p, bad)
	if s.pod != nil {
		brokenStatus(s, p, bad)
	}
	return out
}

// brokenActions checks the actions of a plan against the state that they were planned in: none that is under way is
// planned a second time, and none begins before what it builds on exists or takes away what is still in use.
func brokenActions(s *State, p *Plan, bad func(string, ...any)) {
	keys := map[string]bool{}
	for _, a := range p.Actions {
		if s.tasks.busy(a.Key) || keys[a.Key] {
			bad("%s is planned while %s is in flight", a, a.Key)
		}
		keys[a.Key] = true

		switch a.Kind {
		case CreateSandbox, StartContainer:
			if p.Stopping {
				bad("%s is planned for a pod that stops", a)
			}
			if a.Kind == StartContainer && !s.volumes.ready {
				bad("%s is planned before its volumes are there", a)
			}
		case RemoveSandbox:
			for _, c := range s.runtime.Containers {
				if c.SandboxID == a.ID && c.State == observed.Running {
					bad("%s is planned while container %s runs in it", a, c.ID)
				}
			}
		case Cleanup:
			if s.runtime.Running() || s.creating() {
				bad("%s is planned while a container runs or is being made", a)
			}
		}
	}
}

// brokenStatus compares the planned status with the last one. Other components act upon a status: a phase that has
// ended, an address, a generation and a restart count must therefore never go back. The containers of a pod that was
// rejected are not compared.
func brokenStatus(s *State, p *Plan, bad func(string, ...any)) {
	st, last := &p.Status, lastStatus(s)
	// others may write a terminal phase over a pod that runs
	known := terminal(last.Phase) || terminal(s.pod.Status.Phase)
	if terminal(st.Phase) && !known && (s.runtime.Running() || s.creating()) {
		bad("phase %s while a container runs or is being made", st.Phase)
	}
	if terminal(last.Phase) && st.Phase != last.Phase {
		bad("phase %s after %s", st.Phase, last.Phase)
	}
	if st.ObservedGeneration < last.ObservedGeneration && s.last != nil || st.ObservedGeneration > s.pod.Generation {
		bad("observed generation %d after %d of %d", st.ObservedGeneration, last.ObservedGeneration, s.pod.Generation)
	}
	if last.PodIP != "" && st.PodIP == "" {
		bad("address %s forgotten", last.PodIP)
	}
	if s.ending.stop != nil && s.ending.stop.Rejected {
		return
	}

	for _, c := range st.ContainerStatuses {
		if old := findStatus(s, c.Name); old != nil && c.RestartCount < old.RestartCount {
			bad("container %s counts %d restarts after %d", c.Name, c.RestartCount, old.RestartCount)
		}
		if c.State.Running != nil && c.ContainerID == "" {
			bad("container %s runs without an id", c.Name)
		}
	}
}

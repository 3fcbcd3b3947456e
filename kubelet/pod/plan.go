package pod

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Node is what the node contributes to the decision about a pod.
type Node struct {
	HostIPs []string
	// RuntimeName prefixes container ids: "containerd".
	RuntimeName string
	// NetworkNotReady is why pods cannot get a network now; empty if they can.
	NetworkNotReady string `json:",omitzero"`
	// RecursiveReadOnly are the runtime's handlers that can make mounts below a read-only mount read-only.
	RecursiveReadOnly []string `json:",omitzero"`
	// InitialBackoff and MaxBackoff bound the restart back-off; zero means 10 s and 300 s.
	InitialBackoff, MaxBackoff time.Duration `json:",omitzero"`
}

// Event is something to report to the user. The actor sends each (Key, Reason) once; one without a Key, always.
type Event struct {
	Key                   string
	Type, Reason, Message string
	Container             string
	Annotations           map[string]string
}

// Plan is what Reconcile decides in one pass over a pod.
type Plan struct {
	Status  v1.PodStatus
	Actions []Action
	Events  []Event
	// Cancel are the keys of actions in flight that may give up, because their outcome is no longer needed.
	Cancel []string
	// NextWake is when the next pass is due even if nothing happens; zero means never.
	NextWake time.Time
	// Stopping is set as soon as the pod must end.
	Stopping bool
	// Stopped is set when no container runs and none will: what the pod holds of the node is free.
	Stopped bool
	// Delete is set when the API object can be deleted, after Status was written.
	Delete bool
	// Finished is set when nothing of the pod is left on the node but folders.
	Finished bool
}

// Dump prints the actions, one per line.
func (p *Plan) Dump() string {
	var b strings.Builder
	for _, a := range p.Actions {
		fmt.Fprintln(&b, a)
	}
	return b.String()
}

// Describe prints the plan made at that time as a whole: the phase of the pod, the actions, the reasons of the events,
// the next wake-up, and how far the end of the pod is.
func (p *Plan) Describe(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "phase %s\n%s", cmp.Or(string(p.Status.Phase), "none"), p.Dump())
	for _, e := range p.Events {
		fmt.Fprintln(&b, strings.TrimRight("event "+e.Type+" "+e.Reason+" "+e.Container, " "))
	}
	for _, key := range p.Cancel {
		fmt.Fprintln(&b, "cancel", key)
	}
	if !p.NextWake.IsZero() {
		fmt.Fprintln(&b, "wake in", p.NextWake.Sub(now))
	}

	for _, end := range []struct {
		is   bool
		name string
	}{{p.Stopping, "stopping"}, {p.Stopped, "stopped"}, {p.Delete, "delete"}, {p.Finished, "finished"}} {
		if end.is {
			fmt.Fprintln(&b, end.name)
		}
	}
	return b.String()
}

// has reports whether an action with that key is planned.
func (p *Plan) has(key string) bool {
	return slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Key == key })
}

// wake plans a wake-up at that time, unless an earlier one is planned; zero plans none.
func (p *Plan) wake(at time.Time) {
	if !at.IsZero() && (p.NextWake.IsZero() || at.Before(p.NextWake)) {
		p.NextWake = at
	}
}

// decision is one pass over a pod: what the node contributes, the time, and the plan that grows meanwhile.
type decision struct {
	node Node
	now  time.Time
	plan *Plan
}

// whenDue calls do, unless the last failure asks to wait; then it plans the wake-up.
func (d *decision) whenDue(last *Failure, do func()) {
	if last != nil && d.now.Before(last.RetryAt) {
		d.plan.wake(last.RetryAt)
		return
	}
	do()
}

// do adds an action to the plan, unless one with its key is in flight.
func (d *decision) do(t taskState, a Action) {
	if !t.busy(a.Key) {
		d.plan.Actions = append(d.plan.Actions, a)
	}
}

// try adds an action when its last failure allows it.
func (d *decision) try(t taskState, a Action) {
	d.whenDue(t.failures[failureKey(a)], func() { d.do(t, a) })
}

// Package kubelet runs the pods of one node. It is the same on Windows and Linux.
//
//	API watch ─┐                          ┌─> status slots ─> senders ─> PATCH/DELETE
//	CRI events ┼─> Kubelet ─> actor(uid) ─┼─> actions (effects): CRI calls, volumes, cgroups ─┐
//	probes     ┤   (router)      ▲        └─> view (what the HTTP server reads)               │
//	full checks┘                 └───────────────────────── facts ────────────────────────────┘
//
// Each pod has one actor, which owns the pod's state. Others post facts to it and never wait. The actor takes the
// facts in (pod.State.Take), asks pod.Reconcile what to do, and runs each action in a goroutine of its own, which
// returns facts.
//
//	file               what is in it
//	kubelet.go         the router: from the API and others to the actors
//	pods.go            the actors by pod, for all who ask about pods
//	knowledge.go       what a kubelet that has just started may do already
//	run.go             the life of a kubelet: registration, watches, end
//	actor.go           one pod: its state and inbox
//	pass.go            what the actor does: turn, pass, start of actions
//	admission.go       may a pod run here: what the actor asks, and the node's answer
//	agree.go           the other resources that a pod asks for while it runs: what the actor asks, and what it notes
//	publish.go         status and view
//	contain.go         panics and broken invariants
//	observe.go         events and full checks of the runtime
//	cleaner.go         folders and mounts that are left of pods
//	pressure.go        the node runs out of something: conditions, evictions, room for critical pods
//	staticpods.go      pods from files
package kubelet

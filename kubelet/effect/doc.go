// Package effect carries out the actions that package pod decides on: calls of the container runtime, volumes, cgroups,
// hooks. Each action runs in a goroutine of its own and knows nothing of the pod's state: what it needs comes as a Job,
// and what came of it goes back as facts.
//
//	file               what is in it
//	effect.go          which action is which, and what all share: events, reading the pod again after a call that failed
//	sandbox.go, …      one kind of action each
//	specs.go           what the runtime has to know to make sandboxes and containers; mounts.go: their files
//	folders.go         what pods have on disk; note.go: what a resize has given them
//	guard.go           a panic in an action is an error of that pod
package effect

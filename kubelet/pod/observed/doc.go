// Package observed is the vocabulary for what a container runtime has of one pod: its sandboxes and its containers,
// each attempt of each. The adapter of the runtime speaks it, and the decisions about a pod read it.
//
// A Runtime is one answer. It is a value: once it is shared it is not changed, and Merge, Checked and the others return
// a new one. A container goes from created to running to exited and never back, whatever a late answer says.
package observed

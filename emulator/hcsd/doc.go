// Package hcsd decides what the Host Compute Service of an emulated host answers. It is pure: documents and what is
// known of the host come in, and a new state, an answer or an error goes out. Package serve is the daemon around it:
// it listens, starts the containers, mounts their layers, and keeps the state on disk.
//
//	Created ──HcsStartComputeSystem──▶ Running ──shutdown, termination or the end of its first process──▶ Stopped
//
// A stopped system can no longer be opened; it is forgotten with its last handle. What is decided here shares nothing
// with the programs that it judges: documents are decoded by types of this package, and a field that is not known is
// refused (Decode).
package hcsd

// Package systems owns the compute systems of an emulated host and their processes: what package hcsd decides of each,
// which processes of Linux they are, and whom their ends are told.
//
//	            Create          Started             Ended
//	(nothing) ─────────▶ Created ──────▶ Running ─────────▶ Stopped ──▶ (nothing)
//	                        │                                  ▲          with its last handle
//	                        └───────────── Stop ───────────────┘
//
// What is refused changes nothing. Nothing here starts or kills a process: the caller does, and records it.
package systems

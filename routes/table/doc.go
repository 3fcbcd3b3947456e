// Package table decides which routes a node should have: nodes, what this host can reach directly, and the routes that
// are there now go in; a plan that prints itself comes out. It is pure.
//
//	nodes + facts ──▶ wanted ─┐
//	                          ├─▶ add what is missing or wrong, then delete what is ours and not wanted
//	listed routes ────────────┘
package table

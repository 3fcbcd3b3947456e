// Package model reduces what the API and the nodes say of a cluster to what people look at: objects with a state, a
// reason in one sentence and the command that shows more. It is pure; the page, `porthole why` and `porthole top` show
// the same results.
//
//	objects of the API ──┐
//	                     ├─▶ Facts ─▶ Build ─▶ Snapshot ─▶ Encode ─▶ Document ─▶ Diff ─▶ Patch for a browser
//	answers of the nodes ┘      └───▶ Why ─▶ steps of one object: done, waits, wrong, not known
package model

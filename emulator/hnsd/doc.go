// Package hnsd is the emulated Host Networking Service as pure state and rules: HCN documents (v2) and the older HNS
// calls (v1) as two views of the same objects, and the plan of what the data plane has to carry. It does no input or
// output: package serve beneath it listens, keeps the state on disk and calls the data plane.
//
//	call ─▶ serve ─▶ Host.Create/Modify/Delete(State) ─▶ new State ─▶ Desired ─▶ data plane
//	                        pure, old State untouched                    error: the new State is dropped
//
// A State is never changed in place: objects are replaced, so a reader of an older State sees it whole. Behaviour
// that differs between Windows versions, and behaviour that is only inferred, is a field of Profile.
package hnsd

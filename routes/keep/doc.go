// Package keep is the loop that every mode of the network between nodes shares, and the keeper of adapters with them
// (Loop). It works on what changed, in the cluster or on the host, so that what somebody deletes or overwrites is soon
// back. It compares everything each period besides, and each second while the host cannot report changes or
// something is missing.
//
//	nodes of the cluster ─┐
//	host ──Observe────────┼─▶ Plan ─▶ Apply, one change after the other ─▶ host
//	Watch, each period ───┘    └──────────────────────────────────────────▶ status of each route
//
// Nothing is changed while the nodes are not known or the host cannot be observed: unknown is not absent. What a mode
// made stays when the loop ends, because pods go on without us.
package keep

// Package keep is the loop that every mode of the network between nodes shares, and the keeper of adapters with them
// (Loop). It works on what changed, in the cluster or on the host, so that what somebody deletes or overwrites is soon
// back. It compares everything each ten seconds besides, and each second while the host cannot report changes or
// something is missing.
//
//	nodes of the cluster ─┐
//	host ──Observe────────┼─▶ Plan ─▶ Apply, one change after the other ─▶ host
//	Watch, each period ───┘    └──────────────────────────────────────────▶ status of each route
//
// In a large cluster a pass takes long. If the routes to a node depend on that node alone, those of one that comes are
// made between two passes, on what the last one saw; the next pass compares everything.
//
// Nothing is changed while the nodes are not known or the host cannot be observed: unknown is not absent. What a mode
// made stays when the loop ends, because pods go on without us.
package keep

// Package keep is the loop that every mode of the network between nodes shares, and the keeper of adapters with them (Loop). It works on what changed, in the cluster or
// on the host, and compares everything each second besides, so that what somebody deletes or overwrites is soon back.
//
//	nodes of the cluster ─┐
//	host ──Observe────────┼─▶ Plan ─▶ Apply, one change after the other ─▶ host
//	Watch, every second ──┘    └──────────────────────────────────────────▶ status of each route
//
// Nothing is changed while the nodes are not known or the host cannot be observed: unknown is not absent. What a mode made
// stays when the loop ends, because pods go on without us.
package keep

// Package nodestatus keeps the node object of this kubelet in the API: it registers the node, works out its status
// (capacity, addresses, conditions, images) and reports it, at once when it changes and by the clock otherwise.
//
//	runtime's version and health ─┐
//	images, pressure, machine ────┼─▶ statusOf (pure) ─▶ nodePatch (pure) ─▶ PATCH nodes/NAME/status
//	node object as the API has it ┘
//
// What others write into the node (addresses of a cloud, extended resources, their conditions) is kept.
package nodestatus

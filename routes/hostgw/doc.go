// Package hostgw keeps a host's routes to the pod ranges of the other nodes, each through that node's own address
// (host-gateway). It works on what changed, in the cluster or in the host's table, and looks at the whole table every
// second besides: a route that somebody deletes or overwrites is back at once.
//
//	nodes of the cluster ─┐
//	host's table ─────────┼─▶ table.Make ─▶ add, delete ─▶ host's table
//	every second ─────────┘                       └─▶ status of each route
//
// Routes stay when the process ends. On Linux ours carry the route protocol 201; Windows has no such mark: there, ours
// are those of a pod range, through the nodes' interface, with metric 0.
package hostgw

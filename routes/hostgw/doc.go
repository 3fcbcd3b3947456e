// Package hostgw is the mode host-gateway: a node reaches the pods of every other node through a route to that node's own
// address. All nodes have to be on one segment; nothing is encapsulated, so that pods have the MTU of the segment.
//
// On Linux our routes carry the route protocol 201. Windows has no such mark: there, ours are those of a pod range, through
// the interface of the node's address, with metric 0. Routes stay when the process ends.
package hostgw

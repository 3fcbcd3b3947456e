// Package hostgw is the mode host-gateway: a node reaches the pods of every other node through a route to that node's
// own address. All nodes have to be on one segment; nothing is encapsulated, so that pods have the MTU of the segment.
//
// The routes are in the host's table (routes/fib). They stay when the process ends.
package hostgw

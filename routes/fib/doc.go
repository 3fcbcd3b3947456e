// Package fib is the host's route table (forwarding information base), as the modes use it that make routes.
//
// On Linux our routes carry the route protocol 201. Windows has no such mark: there, ours are those of a pod range,
// through the interface of the node's address, with metric 0. One destination can have several next hops: on Linux
// this is one multipath route, on Windows several routes with the same metric.
package fib

// Protocol marks our routes in a Linux kernel's table. Neither iproute2's list nor FRR nor BIRD uses 201.
const Protocol = 201

// Package path follows one packet on paper: from a pod, node or address to another, over the facts that each node reported. It is
// pure.
//
//	facts of each node (routes, neighbours, HNS, service rules) ─┐
//	                                                             ├─ Follow ─▶ ways: hop, what decides, and the first hop that
//	nodes, pods, services, EndpointSlices of the API ────────────┘            is wrong, with what should be there and who makes it
//
// A packet for a service takes one of several ways, one for each backend. The way of the answer is followed as well, because a packet
// that cannot be answered is as lost as one that does not arrive.
package path

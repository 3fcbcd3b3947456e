// Package path computes which hops a packet takes from a pod, node or address to another, and where it is lost. Its
// input is what each node reported of itself and what the API has. It sends no packet and does no I/O.
//
//	facts of each node (routes, neighbours, HNS, service rules) ─┐
//	                                                             ├─ Follow ─▶ ways: each hop with what decides, and the first that
//	nodes, pods, services, EndpointSlices of the API ────────────┘            is wrong, with what should be there and who makes it
//
// A way (type Way) is the list of hops of one packet. A service has one for each backend that the packet may be sent
// to. The answer is followed as well, because a connection needs both directions.
package path

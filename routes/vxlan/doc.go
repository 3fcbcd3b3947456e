// Package vxlan is the mode vxlan: packets to the pods of another node travel in UDP datagrams between the nodes' own
// addresses (RFC 7348). Nodes need no common segment, and no router has to know pod ranges. It is compatible with
// flannel's backend of that name: nodes find each other through flannel's annotations, so that flanneld and we work in
// one cluster.
//
//	Node's annotations ──Read──▶ Announcement ─┐
//	pod ranges ──table.Peers───────────────────┴─Peers─▶ one Peer per range: MAC address, public address, state
//	                                                        │
//	          Linux: device flannel.VNI, and per peer a neighbour, a forwarding entry and a route
//	          Windows: a policy RemoteSubnetRoute of the HNS network per peer
//
// The type Mode differs between the systems. What both share is pure: config.go, announce.go and plan.go. Both probe
// the path MTU to other nodes (probe.go).
package vxlan

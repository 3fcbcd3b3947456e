// Package networks tests each mode of `porthole up --network` with a cluster of its own, one after the other: one
// Linux node and two emulated Windows nodes. Every mode has a file and a test, which calls checkPaths: packets from
// pods and nodes to pods, nodes and services, by ICMP, TCP and UDP, with the routers that they pass and what the wire
// between the nodes carries.
//
// Tests that take long run only with PORTHOLE_NETWORKS=long (`make test-networks`). PORTHOLE_NETWORKS_KEEP=1 leaves
// the cluster of a test that failed running. TestDaemonSets, where others than we make the Windows nodes' network,
// runs only with PORTHOLE_DAEMONSETS=long (`make test-daemonsets`).
package networks

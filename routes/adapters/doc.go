// Package adapters keeps the network adapters of a Windows host as the pod network needs them. Pods reach other nodes
// through the IP stack of their host, from the adapter of the host's endpoint to the adapter with the node's address
// and back:
//
//	pod ──▶ vEthernet (porthole_ep) 10.244.1.2 ──forwarding──▶ vEthernet (Ethernet) 10.99.0.21 ──▶ other nodes
//
// Windows drops such packets on an adapter without forwarding, and forwarding is off on a new adapter
// (docs/windows-facts.md, "Networks and routes"). The setting is lost when HNS replaces the adapter, so it is compared
// each ten seconds and after each change that Windows reports. An endpoint attached to the host may also bring a
// second default route, to an address that nobody has; it is removed.
//
// The plan is pure. Linux needs none of this: its bridge plugin enables forwarding.
package adapters

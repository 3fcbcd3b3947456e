// Package ovn is the mode ovn on one node: pods are ports of OVN's integration bridge, and OVN carries their packets
// to other nodes in Geneve (or VXLAN) tunnels. The cluster's controller (ovn/controller) says what OVN does; this mode
// prepares the node for it:
//
//	keys in the database of Open vSwitch ─▶ ovn-controller registers the node and makes br-int and the tunnels
//	--ovn-uplink: bridge br-ex with that card and its addresses, for a switch that is a program and has to send the tunnels itself
//	port k8s-NODE of br-int with the second address of the range, and routes to pods and services through it: the node itself
//
// ovn-controller, ovsdb-server and ovs-vswitchd are installed and started by others.
package ovn

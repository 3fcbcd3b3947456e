// Package ovn attaches pods to OVN, on Linux and on Windows, as the plugins ovn_cni.exe (2017) and ovn-k8s-cni-overlay
// (2018) did.
//
//	ADD   ask the node's agent for the pod's annotation ─▶ interface of the pod (veth, or HNS endpoint)
//	      ─▶ port of br-int with iface-id NAMESPACE_POD ─▶ wait until OVN has installed its flows
//	DEL   delete the port, then the interface
//
// Every call may be repeated, also after a kill: what a call makes has names that follow from the container's id.
package ovn

// Package cluster makes a whole Kubernetes cluster on this machine, and removes it: a stock control plane, Linux nodes,
// and emulated Windows nodes, each host in a network namespace of its own (package lab), all processes under package
// supervise.
//
//	127.0.0.1:6443 ─relay─▶ lin01: control plane, containerd, kubelet, kube-proxy, routes
//	                          │
//	     registry ── tor ─────┼── win01: wineserver, hnsd, containerd, cri, kubelet.exe, kube-proxy.exe, routes
//	     outside              └── win02: the same
//
// What a cluster is made of is in the folders below, each of which imports only such as stand below it in README.md.
package cluster

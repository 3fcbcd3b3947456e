// Package cluster makes a whole Kubernetes cluster on this machine: a stock control plane, Linux nodes, and emulated
// Windows nodes, each host in a network namespace of its own (package lab), all processes under package supervise.
//
//	127.0.0.1:6443 ─relay─▶ lin01: control plane, containerd, kubelet, kube-proxy, routes
//	                          │
//	     registry ── tor ─────┼── win01: wineserver, hnsd, containerd, cri, kubelet.exe, kube-proxy.exe, routes
//	     outside              └── win02: the same
//
// Where the code is: config.go (what a user chooses), layout.go (every path), pki.go and kubeconfig.go (credentials),
// plan.go (pure: which processes, with which arguments), up_linux.go, down_linux.go, status_linux.go,
// datapath_linux.go.
package cluster

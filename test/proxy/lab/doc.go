// Package lab is a lab for service proxies without kubelets: a real API server, emulated Windows hosts with real
// packets, Linux nodes, an outside client. On a host runs either our kube-proxy.exe or upstream's.
//
//	     out ── 203.0.113.0/24 ── sw: switch, router, API server 10.98.0.1:6443, one way to it per host
//	                               │ 10.98.0.0/24
//	   ┌───────────────────────────┼─────────────────────────┐
//	Host: wineserver,           Host …                     Node: Linux, pods 10.244.n.0/24
//	kube-proxy.exe, HNS,
//	pods 10.244.n.0/24
//
// Everything has the Lab's name: network namespaces, the folder, mounts. Any number of Labs can live side by side, and
// Close removes one completely. Hosts of a Lab share nothing but the API server, so tests may use them in parallel.
//
// Pods are network namespaces attached to HNS endpoints (on a Node: to a bridge); their servers are goroutines of the
// test, which answer with the pod's name and the client's address that they saw. EndpointSlices are written by the
// test: no controller runs. A Stage is a test with a Lab, and has what tests do on their way to a question.
package lab

// Package kube is the client of the Kubernetes API for the kubelet, the routes and the local cluster: it loads
// kubeconfigs and offers what the small interfaces declare that these need. The service proxy has a client of its own,
// internal/networkapi, which leaves out most of client-go.
package kube
